// The search for a translation, of one sentence at a time: `decoding/greedy.py` and `decoding/beam.py`.

/** What never follows, set to -Infinity in logits (V): symbols that are no part of a translation; those of spans that are not
 * `due` or were written; the end while one is missing. */
function forbid(logits, ids, { due, allSymbols }) {
  const missing = due.filter((id) => !ids.includes(id));
  for (const id of [PAD_ID, UNK_ID, BOS_ID]) logits[id] = -Infinity;
  for (const id of allSymbols) if (!missing.includes(id)) logits[id] = -Infinity;
  if (missing.length > 0) logits[EOS_ID] = -Infinity;
}

/** At every step the most probable next token. `pause` lets others run, and throws when nobody waits any more. */
async function greedySearch(model, srcIds, options) {
  const state = model.start(srcIds);
  const found = { ids: [], received: [], isComplete: false };
  for (let last = BOS_ID; found.ids.length < options.maxLength;) {
    await options.pause();
    const { logits: [logits], received: [received] } = model.advance(state, [last]);
    forbid(logits, found.ids, options);
    last = 0;
    for (let id = 1; id < logits.length; id++) if (logits[id] > logits[last]) last = id;
    if (last === EOS_ID) return { ...found, isComplete: true };
    found.ids.push(last);
    found.received.push(received);
  }
  return found;
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
      forbid(logits[parent], ids, options);
      const largest = logits[parent].reduce((a, b) => Math.max(a, b));
      const total = logits[parent].reduce((sum, logit) => sum + exp(logit - largest), 0);
      const offset = logProb - largest - log(total);
      logits[parent].forEach((logit, id) => {
        const score = offset + logit;
        if (score === -Infinity || (best.length === 2 * beamSize && score <= best.at(-1).score)) return;
        best.splice(best.findLastIndex((other) => other.score >= score) + 1, 0, { parent, id, score });
        best.splice(2 * beamSize);
      });
    });
    // An end counts only among the best W: there any other token would have been kept.
    for (const { parent, score } of best.slice(0, beamSize).filter(({ id }) => id === EOS_ID)) {
      finish(beams[parent], score, length, true);
    }
    const kept = best.filter(({ id }) => id !== EOS_ID).slice(0, beamSize);
    beams = kept.map(({ parent, id, score }) => ({
      ids: [...beams[parent].ids, id],
      received: [...beams[parent].received, received[parent]],
      logProb: score,
    }));
    if (length === maxLength && finished.length < beamSize) {
      for (const beam of beams) finish(beam, beam.logProb, length, false);
    }
    const bound = beams.length > 0 ? beams[0].logProb / penalty(maxLength) : -Infinity;
    const isClosed = bound === -Infinity || (finished.length === beamSize && bound <= finished.at(-1).score);
    if (length >= maxLength || isClosed) return finished;
    select(state, kept.map(({ parent }) => parent));
  }
}
