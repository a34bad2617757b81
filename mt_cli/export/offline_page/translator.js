// Text to text: `decoding/translator.py` and `alignment.py`. It runs in the worker, or in the page where there is none.

/** The words that pieces spell, with the numbers of the pieces of each. */
function wordsOf(pieces) {
  const found = [];
  let bytes = [];
  pieces.forEach((piece, number) => {
    const byte = piece.match(/^<0x([0-9A-F]{2})>$/)?.[1];
    const isBegun = byte && bytes.length > 0;
    if (byte) bytes.push(parseInt(byte, 16));
    const text = byte ? new TextDecoder().decode(Uint8Array.from(bytes)).replaceAll("\ufffd", "") : piece.replaceAll("\u2581", " ");
    if (text) bytes = [];
    const [bare, last] = [text.trimStart(), found.at(-1)];
    const continues = !text.startsWith(" ") && matches("LETTER", [...bare][0] ?? "") && matches("LETTER", [...last?.text ?? ""].at(-1) ?? "");
    if (last && (isBegun || !last.text || continues)) {
      if (!last.text) last.space = text.slice(0, text.length - bare.length);
      last.text += bare;
      last.pieces.push(number);
    } else {
      found.push({ space: last ? text.slice(0, text.length - bare.length) : "", text: bare, pieces: [number] });
    }
  });
  return found;
}

const sum = (list, of = (one) => one) => list.reduce((total, one) => total + of(one), 0);

/** The words of a translation with marks between them: each where the fewest links cross it, in the order of the source. */
function placed(srcWords, tgtWords, matrix, marks) {
  const slots = [...tgtWords, null].map(() => []);
  let least = 0;
  for (const mark of marks) {
    let [nBefore, start] = [0, 0]; // source words before the mark, and where the next one starts
    for (const { space, text } of srcWords) {
      if (start + space.length < mark.place) nBefore += 1;
      start += space.length + text.length;
    }
    const behind = matrix.map((row) => sum(row.slice(nBefore)) / Math.max(sum(row), 1e-9));
    const costs = slots.map((_, at) => (at < least ? Infinity : sum(behind.slice(0, at)) + sum(behind.slice(at), (share) => 1 - share)));
    least = costs.indexOf(Math.min(...costs));
    slots[least].push(mark.space + mark.symbol);
  }
  return slots.map((own, at) => own.join("") + (tgtWords[at]?.space ?? "") + (tgtWords[at]?.text ?? "")).join("").trim();
}

class Translator {
  /** For one direction of a run: `direction` has the rules of its text, and ids of what is written before each source. */
  constructor(model, src, tgt, direction, decoding) {
    Object.assign(this, { model, src, tgt, direction, decoding });
    this.symbolIds = SYMBOLS.filter((symbol) => tgt.ids.has(symbol)).map((symbol) => tgt.ids.get(symbol));
    this.splitter = new LineSplitter(src, this.symbolIds.length > 0, direction);
  }

  /** A line in up to `nTexts` ways, best first, and how the words of the best attended to those of the source. */
  async translate(line, nTexts, pause) {
    const { parts, end, spans } = this.splitter.split(line);
    const written = [];
    for (const part of parts) {
      const hypotheses = await this.search(part, nTexts, pause);
      written.push(hypotheses.slice(0, nTexts).map((one) => this.written(part, one)));
    }
    const nBest = Math.min(nTexts, ...written.map((own) => own.length));
    const texts = Array.from({ length: nBest }, (_, n) => putBack(parts.map((part, i) => part.before + written[i][n].text).join("") + end, spans));
    const best = written.map(([one]) => one);
    const words = (side) => best.flatMap((one) => one[side].map((text) => putBack(text, spans)));
    const elsewhere = (others) => others.flatMap(({ srcWords }) => srcWords.map(() => 0));
    return {
      source: line,
      texts: matches("VISIBLE", line) ? [...new Set(texts)] : [""],
      estimate: null,
      doubts: [],
      source_words: words("srcWords"),
      target_words: words("tgtWords"),
      attention: best.flatMap(({ matrix }, i) => matrix.map((row) => [...elsewhere(best.slice(0, i)), ...row, ...elsewhere(best.slice(i + 1))])),
    };
  }

  search({ ids, symbols }, nTexts, pause) {
    const { length_penalty: alpha, length_normalization: kind, beam_size: beamSize } = this.decoding;
    const due = this.symbolIds.slice(0, symbols.length);
    const options = { maxLength: this.maxLength(ids.length), due, allSymbols: this.symbolIds, pause };
    if (nTexts === 1) return greedySearch(this.model, [...ids, EOS_ID], options).then((found) => [found]);
    const penalty = (length) => (kind === "gnmt" ? (5 + length) / 6 : length) ** alpha;
    return beamSearch(this.model, [...ids, EOS_ID], { ...options, penalty, beamSize: Math.max(nTexts, beamSize) });
  }

  maxLength(nSrc) {
    const { max_length_ratio: ratio, n_positions: nPositions } = this.decoding;
    const { length_ratio: usual, longest_deviation: deviation } = this.direction.rules;
    const longest = Math.ceil(usual * (nSrc + 1) + deviation * Math.sqrt(nSrc + 1));
    return Math.min(ratio === null ? Math.max(2 * nSrc + 10, longest) : Math.floor(nSrc * ratio) + 10, nPositions - 1);
  }

  /** What a hypothesis says, as its source is written, and how its words attended to those of the source. */
  written({ ids: srcIds, symbols, marks, sentence }, { ids, received }) {
    const nTags = this.direction.tags.length;
    const srcWords = wordsOf(srcIds.slice(nTags).map((id) => this.src.pieces[id]));
    const tgtWords = wordsOf(ids.map((id) => this.tgt.pieces[id]));
    const matrix = tgtWords.map(({ pieces: own }) => srcWords.map(({ pieces }) =>
      sum(own, (t) => sum(pieces, (s) => received[t][nTags + s])) / own.length));
    let text = normalize(this.tgt.decode(ids), this.decoding.keeps_no_break_spaces);
    if (marks.length > 0) text = placed(srcWords, tgtWords, matrix, marks);
    if (sentence.hasAddedEnd && /[.。．｡]$/u.test(text)) text = text.slice(0, -1);
    if (sentence.isInCapitals) text = text.toUpperCase();
    const lost = symbols.filter((_, i) => !text.includes(SYMBOLS[i])); // of a translation that was cut off
    const back = (words) => words.map((word) => numberedBack(word.text, symbols));
    return { text: [numberedBack(text, symbols), ...lost].join(" "), srcWords: back(srcWords), tgtWords: back(tgtWords), matrix };
  }
}

/** The translators of a page's `data`, by names such as nb-en. */
function loadTranslators(data, weights, wasm) {
  setPatterns(data.patterns);
  const model = new InferenceModel(data.config, data.network, weights, wasm);
  const [src, tgt = src] = data.tokenizers.map((one) => new Tokenizer(one));
  return new Map(data.directions.map((direction) =>
    [`${direction.source}-${direction.target}`, new Translator(model, src, tgt, direction, data.decoding)]));
}

/** Answers what comes through a port: first `page`, the data of the page; then { id, direction, lines, nTexts } by { id, lines }
 * or { id, error }. An `id` alone cancels that request. */
function answerRequests(port) {
  const cancelled = new Set();
  let translators = null;
  port.onmessage = async ({ data: { page, id, direction, lines, nTexts } }) => {
    if (!page && !lines) cancelled.add(id);
    let last = performance.now();
    const pause = async () => {
      if (performance.now() - last > 50) {
        await new Promise((resolve) => setTimeout(resolve));
        last = performance.now();
      }
      if (cancelled.has(id)) throw new Error("cancelled");
    };
    try {
      if (page) translators = loadTranslators(page.data, page.weights, page.wasm);
      const found = [];
      for (const line of lines ?? []) found.push(await translators.get(direction).translate(line, nTexts, pause));
      if (lines) port.postMessage({ id, lines: found });
    } catch (error) {
      port.postMessage({ id, error: page ? `This browser is too old for the page: ${error.message}` : error.message });
    }
  };
}
