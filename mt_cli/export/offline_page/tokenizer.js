// Text to subword ids, as sentencepiece does it: `data/tokenizer.py`.

const [PAD_ID, UNK_ID, BOS_ID, EOS_ID] = [0, 1, 2, 3];

class Tokenizer {
  /** `ids`: of the pieces that spell text; `whole_ids`: of those that are neither divided nor joined; `byte_ids`: of 256 bytes. */
  constructor({ algorithm, pieces, scores, ids, whole_ids: wholeIds, byte_ids: byteIds, unknown_score: unknownScore }) {
    Object.assign(this, { pieces, byteIds, unknownScore, scores: Float32Array.from(scores), wholes: new Set(wholeIds.map((id) => pieces[id])) });
    this.encodeChars = algorithm === "bpe" ? this.merge : this.search;
    this.ids = new Map(ids.map((id) => [pieces[id], id]));
    this.longest = Math.max(...ids.map((id) => [...pieces[id]].length));
  }

  /** Ids of normalized text, without end symbol. A character without a piece is spelled by its bytes. */
  encode(text) {
    if (!text) return [];
    return this.encodeChars([..."\u2581" + text.replaceAll(" ", "\u2581")]).flatMap((piece) =>
      this.ids.get(piece) ?? [...new TextEncoder().encode(piece)].map((byte) => this.byteIds[byte]));
  }

  /** The most probable pieces of a unigram model, by Viterbi's search. */
  search(chars) {
    const best = [{ score: 0, start: 0 }];
    const offer = (start, end, score) => {
      const total = score + best[start].score;
      if (!best[end] || total > best[end].score) best[end] = { score: Math.fround(total), start };
    };
    for (let start = 0; start < chars.length; start++) {
      for (let end = start + 1, piece = ""; end <= Math.min(start + this.longest, chars.length); end++) {
        piece += chars[end - 1];
        if (this.ids.has(piece)) offer(start, end, this.scores[this.ids.get(piece)]);
      }
      if (!this.ids.has(chars[start])) offer(start, start + 1, this.unknownScore);
    }
    const pieces = [];
    for (let end = chars.length; end > 0; end = best[end].start) pieces.unshift(chars.slice(best[end].start, end).join(""));
    return pieces;
  }

  /** The pieces of a BPE model: of all pairs of neighbours, the one with the highest score is joined, again and again. */
  merge(chars) {
    const pieces = [...chars];
    const scoreAt = (i) => {
      const isFixed = i + 1 >= pieces.length || this.wholes.has(pieces[i]) || this.wholes.has(pieces[i + 1]);
      return isFixed ? -Infinity : this.scores[this.ids.get(pieces[i] + pieces[i + 1])] ?? -Infinity;
    };
    const scores = [...pieces.keys()].map(scoreAt);
    for (;;) {
      let best = 0;
      for (let i = 1; i < scores.length; i++) if (scores[i] > scores[best]) best = i;
      if (scores[best] === -Infinity) return pieces;
      pieces.splice(best, 2, pieces[best] + pieces[best + 1]);
      scores.splice(best, 2, scoreAt(best));
      if (best > 0) scores[best - 1] = scoreAt(best - 1);
    }
  }
}
