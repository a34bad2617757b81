// Text to subword ids and back, as sentencepiece does it: `data/tokenizer.py`.

const [PAD_ID, UNK_ID, BOS_ID, EOS_ID] = [0, 1, 2, 3];
const [NORMAL, CONTROL, WHOLE, BYTE] = ["1", "3", "4", "6"]; // types of pieces; a whole one is neither divided nor joined

class Tokenizer {
  /** `types`: a digit for each piece. */
  constructor({ algorithm, pieces, scores, types }) {
    [this.pieces, this.types, this.scores] = [pieces, types, Float32Array.from(scores)];
    this.encodeChars = algorithm === "bpe" ? this.merge : this.search;
    const ids = (kind) => [...pieces.keys()].filter((id) => types[id] === kind);
    this.ids = new Map([...ids(NORMAL), ...ids(WHOLE)].map((id) => [pieces[id], id]));
    this.wholes = new Set(ids(WHOLE));
    this.byteIds = new Map(ids(BYTE).map((id) => [Number(pieces[id].slice(1, -1)), id]));
    this.longest = Math.max(...[...this.ids.keys()].map((piece) => [...piece].length));
    const scoresOfNormal = ids(NORMAL).map((id) => this.scores[id]);
    this.wholeScore = 3 * Math.max(...scoresOfNormal) - 0.1; // of 3 bytes
    this.unknownScore = Math.fround(Math.min(...scoresOfNormal) - 10);
  }

  /** Ids of normalized text, without end symbol. A character without a piece is spelled by its bytes. */
  encode(text) {
    if (!text) return [];
    return this.encodeChars([..."\u2581" + text.replaceAll(" ", "\u2581")]).flatMap((piece) => {
      if (this.ids.has(piece)) return [this.ids.get(piece)];
      return [...new TextEncoder().encode(piece)].map((byte) => this.byteIds.get(byte) ?? UNK_ID);
    });
  }

  /** The most probable pieces of a unigram model, by Viterbi's search. */
  search(chars) {
    const best = [{ score: 0, start: 0 }];
    const offer = (start, end, score) => {
      const total = score + best[start].score;
      if (!best[end] || total > best[end].score) best[end] = { score: Math.fround(total), start };
    };
    for (let start = 0; start < chars.length; start++) {
      let piece = "";
      for (let end = start + 1; end <= Math.min(start + this.longest, chars.length); end++) {
        piece += chars[end - 1];
        const id = this.ids.get(piece);
        if (id !== undefined) offer(start, end, this.wholes.has(id) ? this.wholeScore : this.scores[id]);
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
    const isWhole = (piece) => this.wholes.has(this.ids.get(piece));
    const scoreOf = (left, right) => {
      const id = right === undefined || isWhole(left) || isWhole(right) ? undefined : this.ids.get(left + right);
      return id === undefined ? -Infinity : this.scores[id];
    };
    const scores = pieces.map((piece, i) => scoreOf(piece, pieces[i + 1]));
    for (;;) {
      let best = 0;
      for (let i = 1; i < scores.length; i++) if (scores[i] > scores[best]) best = i;
      if (scores[best] === -Infinity) return pieces;
      pieces.splice(best, 2, pieces[best] + pieces[best + 1]);
      scores.splice(best, 2, scoreOf(pieces[best], pieces[best + 1]));
      if (best > 0) scores[best - 1] = scoreOf(pieces[best - 1], pieces[best]);
    }
  }

  decode(ids) {
    const bytes = ids.filter((id) => this.types[id] !== CONTROL).flatMap((id) =>
      this.types[id] === BYTE ? [Number(this.pieces[id].slice(1, -1))] : [...new TextEncoder().encode(this.pieces[id])]);
    return new TextDecoder().decode(Uint8Array.from(bytes)).replaceAll("\u2581", " ");
  }
}
