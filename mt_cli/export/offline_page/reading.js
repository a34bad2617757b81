// Reads text as people write it in the way of the training text, in parts that the model reads at once: `data/reading.py`,
// `spans.py`, `splitting.py` and `decoding/parts.py`, whose rules are patterns and tables of characters in the data of the page.

// Symbols stand for spans of a line, which are copied and not translated. Those of the first kind belong to words, tags to the
// words that they touch, and others may stay outside of a sentence.
const [INSIDE, TAGS, OUTSIDE] = [0xf0000, 0xf8000, 0x100000];
const SYMBOLS = [..."\ue000\ue001\ue002\ue003\ue004\ue005\ue006\ue007"]; // of the spans of a sentence, as the model reads them
const HELD = /[\ue000-\ue007\u{f0000}-\u{10ffff}]/gu;
const TAG = /[\u{f8000}-\u{fffff}]/u;
const CORE = /^(.*?)([\u{f8000}-\u{fffff}]*[\p{L}\p{M}\p{N}\ue000-\ue007\u{f0000}-\u{f7fff}](?:.*[\p{L}\p{M}\p{N}\ue000-\ue007\u{f0000}-\u{f7fff}])?[\u{f8000}-\u{fffff}]*)(.*)$/su;
const IN_CAPITALS = /^(?:[^\p{Lowercase}\p{Lt}\p{Uppercase}]*\p{Uppercase}){4}[^\p{Lowercase}\p{Lt}]*$/u;
const NOT_IN_TITLE = /(^|\P{Cased})\p{Lowercase}|\p{Cased}[\p{Uppercase}\p{Lt}]/u; // words that are not in title case

const readAs = (table, text) => [...text].map((char) => table.get(char) ?? char).join("");

/** The text with a symbol for each of its spans, which are added to those of the line. */
function hold(text, pattern, spans) {
  return text.replace(pattern, (span) => {
    const first = span[0] === "<" ? TAGS : /[\p{L}\p{N}]/u.test(span) ? INSIDE : OUTSIDE;
    return String.fromCodePoint(first + spans.push(span) - 1);
  });
}

const putBack = (text, spans) => text.replace(/[\u{f0000}-\u{10ffff}]/gu, (symbol) => spans[symbol.codePointAt(0) & 0x7fff]);

/** A sentence with `SYMBOLS` for its spans, and the symbols of the line that these stand for. */
function numberedAnew(text) {
  const own = text.match(HELD) ?? [];
  return [text.replace(HELD, (symbol) => SYMBOLS[own.indexOf(symbol) % SYMBOLS.length]), own];
}

const numberedBack = (text, own) => text.replace(/[\ue000-\ue007]/g, (symbol) => own[SYMBOLS.indexOf(symbol)] ?? "");

/** Two parts of a text: cut at the comma nearest to the middle if one lies in the middle half, else at a space. */
function halves(text, comma) {
  const center = [...text].slice(0, [...text].length / 2).join("").length;
  const first = center - Math.floor(text.length / 4);
  const cutAt = (pattern) => [...text.slice(first, 2 * center - first).matchAll(pattern)]
    .map(({ 0: found, index }) => first + index + found.length)
    .sort((a, b) => Math.abs(a - center) - Math.abs(b - center))[0];
  const cut = cutAt(comma) ?? cutAt(/ /g) ?? center;
  return [text.slice(0, cut).trim(), text.slice(cut).trim()];
}

class LineSplitter {
  /** For one direction of a run: ids of the `tags` before each source, `rules` of its text. */
  constructor(tokenizer, hasSymbols, { tags, rules }) {
    Object.assign(this, { tokenizer, hasSymbols, tags, rules });
    this.patterns = mapped(rules.patterns, (pattern) => new RegExp(pattern, "gv"));
    this.tables = mapped(rules.tables, (pairs) => new Map(pairs));
  }

  /** The text in NFC, with one space for any run of whitespace or control characters and none at the ends. */
  normalize(text, keepsNoBreakSpaces = false) {
    const spaced = text.replace(this.patterns.SPACES, (run) => (keepsNoBreakSpaces && run.match(/[\u00a0\u202f]/)?.[0]) || " ");
    return spaced.trim().normalize("NFC");
  }

  /** The parts in which a line is translated, with what stands before each; what stands behind the last; the spans. */
  split(line) {
    const [parts, spans, { patterns, tables, rules: { space } }] = [[], [], this];
    let gap = "";
    for (const text of line.split(patterns.LINE_BREAK)) {
      if (!this.normalize(text)) { gap += text; continue; }
      const [, first, last] = text.match(/^([ \t\u00a0\u202f]*).*?([ \t\u00a0\u202f]*)$/s);
      const visible = this.normalize(hold(text, patterns.SPANS, spans).replace(patterns.INVISIBLE, ""));
      gap += first;
      this.sentences(visible.replace(patterns.SPELLING, (char) => tables.spelling.get(char))).forEach((one, number) => {
        const sentence = this.sentence(one, spans);
        gap += (number > 0 ? space : "") + sentence.before;
        this.parts(sentence.text, spans).forEach((part, n) => {
          parts.push({ ...part, sentence, before: gap + (n > 0 ? space : "") });
          gap = "";
        });
        gap += sentence.after;
      });
      gap += last;
    }
    return { parts, end: gap, spans };
  }

  /** The sentences of normalized text. */
  sentences(text) {
    if (this.rules.saw_several_sentences && this.encode(numberedAnew(text)[0])) return [text];
    let ends = [...text.matchAll(this.patterns.SENTENCE_END)].map(({ 0: mark, index }) => index + mark.length);
    // A sentence has a letter or a digit: anything else that follows an end belongs to the sentence before it.
    ends = ends.filter((end, i) => /[\p{L}\p{N}_]/u.test(text.slice(end, ends[i + 1])));
    return [...ends, text.length].map((end, i) => text.slice(ends[i - 1] ?? 0, end).trim());
  }

  /** A sentence as the model reads it, and what stands around its translation. */
  sentence(text, spans) {
    const { starts, ends, capitals, variants, tgt_variants: tgtVariants, plain } = this.tables;
    const isKnown = (edges, edge) => edges.has(readAs(plain, edge));
    const [, outerBefore, core, outerAfter] = text.match(CORE) ?? [];
    if (!/\p{L}/u.test(core ?? "")) return { before: text, text: "", after: "" };
    // What lines of training begin or end with belongs to the sentence, as near to the words as it stands.
    let [first, last] = [0, outerAfter.length];
    while (first < outerBefore.length && (outerBefore[first] === " " || !isKnown(starts, outerBefore.slice(first)))) first++;
    while (last > 0 && (outerAfter[last - 1] === " " || !isKnown(ends, outerAfter.slice(0, last)))) last--;
    if (/^([.。]{2}|[…⋯])/.test(outerAfter) && !isKnown(ends, outerAfter)) last = 0;
    const around = readAs(plain, outerBefore.slice(0, first) + outerAfter.slice(last));
    const isOpen = [..."\"'("].some((char) => around.includes(char) && readAs(plain, core).includes(char));
    if (isOpen || TAG.test(around)) [first, last] = [0, outerAfter.length]; // a quotation may begin or end here
    const [start, end] = [outerBefore.slice(first), outerAfter.slice(0, last)];
    const hasCaseless = core.search(this.patterns.CASELESS) >= 0; // a word in capitals says nothing of such words around it
    const isInCapitals = IN_CAPITALS.test(core) && !hasCaseless && capitals.get(core.toLocaleLowerCase(this.rules.locale)) !== core;
    const whole = [
      starts.get(readAs(plain, start)) ?? start,
      this.withCapitals(core, isInCapitals, hasCaseless),
      ends.get(readAs(plain, end)) ?? (end || this.rules.added_end),
    ].join("");
    return {
      before: readAs(tgtVariants, outerBefore.slice(0, first)),
      text: hold(readAs(variants, whole), this.patterns.UNKNOWN, spans), // words and signs that training has not are copied
      after: readAs(tgtVariants, outerAfter.slice(last)),
      isInCapitals,
      hasAddedEnd: end === "" && this.rules.added_end !== "",
    };
  }

  /** A text in capitals, without any, or in title case, with the capitals that its words have in training. */
  withCapitals(core, isInCapitals, hasCaseless) {
    const { tables: { capitals }, rules: { locale, has_capital_starts: hasCapitalStarts } } = this;
    const small = core.toLocaleLowerCase(locale);
    const hasNone = core === small && core !== core.toUpperCase();
    const isTitle = core.split(" ").length >= 4 && !hasCaseless && /[\p{Uppercase}\p{Lt}]/u.test(core) && !NOT_IN_TITLE.test(core);
    if (!isInCapitals && !hasNone && !isTitle) return core;
    const cased = small.replace(this.patterns.WORD, (word) => capitals.get(word) ?? word);
    return hasCapitalStarts ? cased.replace(/^./su, (char) => char.toLocaleUpperCase(locale)) : cased;
  }

  /** A sentence, which is cut near its middle until each part is short enough for the model, and has few spans. */
  parts(text, spans) {
    const [bare, marks] = this.withoutMarks(text, spans);
    const [plain, symbols] = numberedAnew(bare);
    const ids = this.encode(plain);
    const isLong = ids === null || symbols.length > SYMBOLS.length;
    if (isLong && [...text].length > 1) return halves(text, this.patterns.COMMA).flatMap((half) => this.parts(half, spans));
    return ids?.length > 0 ? [{ ids, symbols, marks }] : [];
  }

  /** The text without tags, and without other spans where the tokenizer has no symbols: these as marks. */
  withoutMarks(text, spans) {
    let plain = "";
    const marks = [];
    text.split(/([\u{f0000}-\u{10ffff}])/u).forEach((piece, i, pieces) => {
      if (i % 2 && (!this.hasSymbols || /^<(?:[^<>]*|!--.*--)>$/s.test(putBack(piece, spans)))) {
        marks.push({ symbol: piece, place: plain.length, before: plain.endsWith(" ") ? " " : "", after: pieces[i + 1].startsWith(" ") ? " " : "" });
      } else plain += /(^| )$/.test(plain) ? piece.trimStart() : piece;
    });
    return [plain.trim(), marks];
  }

  /** The ids of a source with its tags; null where they are more than the model reads. */
  encode(text) {
    const { tokenizer, tags, rules: { max_tokens: maxTokens } } = this;
    const ids = text.length <= 32 * maxTokens ? tokenizer.encode(text) : null; // longer, whatever its pieces are
    return ids?.length > 0 && ids.length + tags.length <= maxTokens ? [...tags, ...ids] : ids?.length === 0 ? [] : null;
  }
}
