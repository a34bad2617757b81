// The search for a translation, of one sentence at a time: `decoding/greedy.py` and `decoding/beam.py`.

/** Makes impossible in logits (V) what cannot follow: what is no part of a translation; symbols of spans that are not `due` or
 * were written; the end while one is missing. */
function forbid(logits, ids, { due, symbolIds }) {
  const missing = due.filter((id) => !ids.includes(id));
  for (const id of [PAD_ID, UNK_ID, BOS_ID, ...symbolIds]) if (!missing.includes(id)) logits[id] = -Infinity;
  if (missing.length > 0) logits[EOS_ID] = -Infinity;
}

/** At every step the most probable next token. `pause` lets others run, and throws when nobody waits any more. */
async function greedySearch(model, srcIds, options) {
  const state = model.start(srcIds);
  const [ids, received] = [[], []];
  for (let last = BOS_ID; ids.length < options.maxLength;) {
    await options.pause();
    const step = model.advance(state, [last]);
    const [logits] = step.logits;
    forbid(logits, ids, options);
    let largest = -Infinity;
    for (let id = 0; id < logits.length; id++) if (logits[id] > largest) [last, largest] = [id, logits[id]];
    if (last === EOS_ID) break;
    ids.push(last);
    received.push(step.received[0]);
  }
  return [{ ids, received }];
}

/** Up to W hypotheses, best first. The score is the log-probability, divided by `penalty` of the length. */
async function beamSearch(model, srcIds, options) {
  const { maxLength, beamSize, penalty } = options;
  const state = model.start(srcIds);
  const finished = [];
  const finish = (hypothesis, logProb, length, isComplete) => {
    finished.push({ ...hypothesis, score: logProb / penalty(length), isComplete });
    finished.sort((a, b) => b.isComplete - a.isComplete || b.score - a.score);
    finished.splice(beamSize);
  };
  let beams = [{ ids: [], received: [], logProb: 0 }];
  for (let length = 1; ; length++) {
    await options.pause();
    const { logits, received } = model.advance(state, beams.map(({ ids }) => ids.at(-1) ?? BOS_ID));
    const best = []; // the 2W best continuations: at most W of them end, so at least W go on
    beams.forEach(({ ids, logProb }, parent) => {
      const own = logits[parent];
      forbid(own, ids, options);
      const largest = own.reduce((a, b) => Math.max(a, b));
      const offset = logProb - largest - Math.log(own.reduce((sum, logit) => sum + exp(logit - largest), 0));
      own.forEach((logit, id) => {
        const score = offset + logit;
        if (score === -Infinity || score <= best[2 * beamSize - 1]?.score) return;
        best.splice(best.findLastIndex((other) => other.score >= score) + 1, 0, { parent, id, score });
        best.splice(2 * beamSize);
      });
    });
    // An end counts only among the best W: there any other token would have been kept.
    for (const { parent, id, score } of best.slice(0, beamSize)) if (id === EOS_ID) finish(beams[parent], score, length, true);
    const kept = best.filter(({ id }) => id !== EOS_ID).slice(0, beamSize);
    beams = kept.map(({ parent, id, score }) => ({
      ids: [...beams[parent].ids, id],
      received: [...beams[parent].received, received[parent]],
      logProb: score,
    }));
    if (length === maxLength && finished.length < beamSize) for (const beam of beams) finish(beam, beam.logProb, length, false);
    const bound = beams.length > 0 ? beams[0].logProb / penalty(maxLength) : -Infinity;
    if (length === maxLength || bound === -Infinity || bound <= finished[beamSize - 1]?.score) return finished;
    select(state, kept.map(({ parent }) => parent));
  }
}
