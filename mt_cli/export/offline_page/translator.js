// Text to text: `decoding/translator.py` and `alignment.py`.

/** The words that pieces spell, with the spaces before them and the numbers of the pieces of each. `inner`: letters between which
 * a line end would be within a word. */
function wordsOf(pieces, inner) {
  const [words, decoder] = [[], new TextDecoder()];
  pieces.forEach((piece, number) => {
    const byte = piece.match(/^<0x([0-9A-F]{2})>$/)?.[1];
    const text = byte ? decoder.decode(Uint8Array.of(parseInt(byte, 16)), { stream: true }) : piece.replaceAll("\u2581", " ");
    const last = words.at(-1);
    if (last && (!last.text.trim() || `${last.text}\n${text}`.match(inner))) {
      last.text += text;
      last.pieces.push(number);
    } else words.push({ text, pieces: [number] });
  });
  return words;
}

/** A translation with the marks of its source: before each, as many words as attended most to those before it there. So marks
 * keep their order, and tags that are pairs stay pairs. */
function placed(srcWords, tgtWords, matrix, marks) {
  let length = -1; // of the words before; the first one has a space
  const starts = srcWords.map(({ text }) => (length += text.length) - text.trimStart().length);
  const sources = matrix.map((row) => starts[row.indexOf(Math.max(...row))]);
  const places = marks.map(({ place }) => sources.filter((start) => start < place).length);
  let text = "";
  [...tgtWords, { text: "" }].forEach((word, at) => {
    const own = marks.filter((_, i) => places[i] === at);
    const last = own.at(-1);
    text += own.map(({ before, symbol }) => before + symbol).join("");
    text += last?.before || last?.after ? last.after + word.text.trimStart() : word.text;
  });
  return text;
}

const sum = (list, of) => list.reduce((total, one) => total + of(one), 0);

class Translator {
  /** For one direction of a run. */
  constructor(model, src, tgt, direction, decoding) {
    this.symbolIds = SYMBOLS.map((symbol) => tgt.ids.get(symbol)).filter((id) => id !== undefined);
    Object.assign(this, { model, src, tgt, direction, decoding, splitter: new LineSplitter(src, this.symbolIds.length > 0, direction) });
  }

  /** A line in up to `nTexts` ways, best first, and how the words of the best attended to those of the source. */
  async translate(line, nTexts, pause) {
    const { parts, end, spans } = this.splitter.split(line);
    const written = [];
    for (const part of parts) written.push((await this.search(part, nTexts, pause)).map((one) => this.written(part, one)));
    const nBest = Math.min(nTexts, ...written.map((own) => own.length));
    const texts = Array.from({ length: nBest }, (_, n) => parts.map((part, i) => part.before + written[i][n].text).join("") + end);
    const best = written.map(([one]) => one);
    const words = (side) => best.flatMap((one) => one[side].map((word) => putBack(word, spans)));
    const elsewhere = (others) => others.flatMap(({ srcWords }) => srcWords.map(() => 0));
    return {
      texts: [...new Set(texts.map((text) => (text.trim() ? putBack(text, spans) : "")))],
      doubts: [],
      source_words: words("srcWords"),
      target_words: words("tgtWords"),
      attention: best.flatMap(({ matrix }, i) => matrix.map((row) => [...elsewhere(best.slice(0, i)), ...row, ...elsewhere(best.slice(i + 1))])),
    };
  }

  search({ ids, symbols }, nTexts, pause) {
    const { length_penalty: alpha, length_normalization: kind, beam_size: beamSize } = this.decoding;
    const [due, maxLength] = [this.symbolIds.slice(0, symbols.length), this.direction.max_lengths[ids.length]];
    const options = { maxLength, due, symbolIds: this.symbolIds, pause };
    if (nTexts === 1) return greedySearch(this.model, [...ids, EOS_ID], options);
    const penalty = (length) => (kind === "gnmt" ? (5 + length) / 6 : length) ** alpha;
    return beamSearch(this.model, [...ids, EOS_ID], { ...options, penalty, beamSize: Math.max(nTexts, beamSize) });
  }

  /** What a hypothesis says, as its source is written, and how its words attended to those of the source. */
  written({ ids: srcIds, symbols, marks, sentence }, { ids, received }) {
    const nTags = this.direction.tags.length;
    const wordsIn = (side, own) => wordsOf(own.map((id) => side.pieces[id]), this.splitter.patterns.INNER);
    const [srcWords, tgtWords] = [wordsIn(this.src, srcIds.slice(nTags)), wordsIn(this.tgt, ids)];
    const matrix = tgtWords.map(({ pieces: own }) => srcWords.map(({ pieces }) => sum(own, (t) => sum(pieces, (s) => received[t][nTags + s]))));
    if (sentence.hasAddedEnd && tgtWords.length > 0) tgtWords.at(-1).text = tgtWords.at(-1).text.replace(/[.。．｡]$/, "");
    let text = this.splitter.normalize(placed(srcWords, tgtWords, matrix, marks), this.decoding.keeps_no_break_spaces);
    if (sentence.isInCapitals) text = text.toLocaleUpperCase(this.direction.tgt_locale);
    const lost = symbols.filter((_, i) => !text.includes(SYMBOLS[i])); // of a translation that was cut off
    const back = (words) => words.map((word) => numberedBack(word.text.trim(), symbols));
    return { text: [numberedBack(text, symbols), ...lost].join(" "), srcWords: back(srcWords), tgtWords: back(tgtWords), matrix };
  }
}

/** The translators of a page's `data`, by names such as nb-en. */
function loadTranslators({ config, decoding, network, tokenizers, directions }, weights, wasm) {
  const model = new InferenceModel(config, network, weights, wasm);
  const [src, tgt = src] = tokenizers.map((one) => new Tokenizer(one));
  return new Map(directions.map((one) => [`${one.source}-${one.target}`, new Translator(model, src, tgt, one, decoding)]));
}
