// Reads text as people write it in the way of the training text, in parts that the model reads at once: `data/normalize.py`,
// `spans.py`, `splitting.py`, `reading.py` and `decoding/parts.py`, whose patterns and tables are in the data of the page.
// Tags are spans like all others.

const [INSIDE, OUTSIDE, MOST, N_SYMBOLS] = [0xf0000, 0x100000, 0xfffe, 8]; // the private use of `spans.py`
const SYMBOLS = Array.from({ length: N_SYMBOLS }, (_, n) => String.fromCodePoint(0xe000 + n));
const INVISIBLE = /[\p{Cf}\p{Cc}\p{Cn}\ufe00-\ufe0f\u{e0100}-\u{e01ef}\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\ufffc]/u;
const OF_WORD = /[\p{L}\p{M}\p{N}\ue000-\ue007\u{f0000}-\u{fffff}]/u; // also the symbol of a span that stays inside
const patterns = {}; // by their names in Python

function setPatterns(sources) {
  for (const [name, source] of Object.entries(sources)) patterns[name] = new RegExp(source, "gv");
}

const matches = (name, text) => text.search(patterns[name]) >= 0; // anywhere in the text
const readAs = (table, text) => [...text].map((char) => table.get(char) ?? char).join("");

/** The text in NFC, with one space for any run of whitespace or control characters and none at the ends. */
function normalize(text, keepsNoBreakSpaces = false) {
  const spaced = text.replace(patterns.SPACES, (run) => (keepsNoBreakSpaces && run.match(/[\u00a0\u202f]/)?.[0]) || " ");
  return spaced.replace(/^[ \u00a0\u202f]+|[ \u00a0\u202f]+$/g, "").normalize("NFC");
}

/** The text with a symbol for each of its spans, which are copied and not translated, and are added to those of the line. */
function hold(text, pattern, spans) {
  return text.replace(pattern, (span) => {
    if (spans.length >= MOST) return span;
    spans.push(span);
    return String.fromCodePoint((span[0] === "<" || !/[\p{L}\p{N}]/u.test(span) ? OUTSIDE : INSIDE) + spans.length - 1);
  });
}

function putBack(text, spans) {
  const number = (symbol) => (symbol.length === 1 ? SYMBOLS.indexOf(symbol) : symbol.codePointAt(0) & 0xffff);
  return text.replace(patterns.HELD, (symbol) => spans[number(symbol)] ?? "");
}

/** A sentence with `SYMBOLS` for its spans, and the symbols of the line that these stand for. */
function numberedAnew(text) {
  const own = text.match(patterns.HELD) ?? [];
  return [text.replace(patterns.HELD, (symbol) => SYMBOLS[own.indexOf(symbol) % N_SYMBOLS]), own];
}

/** The text without the symbols of its spans, and these with the number of characters and the space before each. */
function withoutMarks(text) {
  let plain = "";
  const marks = [];
  for (const piece of text.split(patterns.SYMBOL)) {
    if (matches("HELD", piece)) marks.push({ symbol: piece, place: plain.length, space: plain.endsWith(" ") ? " " : "" });
    else plain += plain.endsWith(" ") ? piece.trimStart() : piece;
  }
  return [plain.trim(), marks];
}

const numberedBack = (text, own) => text.replace(/[\ue000-\ue007]/g, (symbol) => own[SYMBOLS.indexOf(symbol)] ?? "");

/** The sentences of normalized text. A full stop ends none after an abbreviation. */
function sentences(text, abbreviations) {
  const isAbbreviated = ({ 0: mark, index }) => {
    const last = [...text.slice(Math.max(0, index + mark.length - 8), index + mark.length)].slice(-4).join("");
    const short = [...last.replace(/\p{M}/gu, "x").matchAll(patterns.SHORT_ABBREVIATION)][0]?.[1];
    if (short && ([...short].length === 1 || /^[\p{Nd}\p{Lu}]/u.test(short))) return true;
    const before = text.slice(Math.max(0, index - 21), index);
    const word = before.replace(patterns.UNSPACED, " $& ").split(/\s+/).at(-1).replace(patterns.EDGES, "");
    return mark === "." && word !== "" && before.endsWith(word) && abbreviations.includes(word);
  };
  let ends = [...text.matchAll(patterns.SENTENCE_END)].filter((end) => !isAbbreviated(end));
  ends = ends.map(({ 0: mark, index }) => index + mark.length);
  // A sentence has a letter or a digit: anything else that follows an end belongs to the sentence before it.
  ends = ends.filter((end, i) => matches("WORD_CHARACTER", text.slice(end, ends[i + 1])));
  return [...ends, text.length].map((end, i) => text.slice(ends[i - 1] ?? 0, end).trim());
}

/** Two parts of a text: cut at the comma nearest to the middle if one lies in the middle half, else at a space. */
function halves(chars) {
  const [center, quarter] = [Math.floor(chars.length / 2), Math.floor(chars.length / 4)];
  const window = chars.slice(center - quarter, center + quarter).join("");
  const cuts = [patterns.COMMA, / /g].map((pattern) => [...window.matchAll(pattern)]
    .map(({ 0: found, index }) => center - quarter + [...window.slice(0, index + found.length)].length)
    .filter((cut) => cut > 0 && cut < chars.length)
    .sort((a, b) => Math.abs(a - center) - Math.abs(b - center))[0]);
  const cut = cuts[0] ?? cuts[1] ?? center;
  return [chars.slice(0, cut), chars.slice(cut)].map((half) => half.join("").trim());
}

class Reader {
  /** `style`: how training text is written, with the `variants` of characters; null: only spans are found. */
  constructor(style) {
    this.style = style;
    if (!style) return;
    [this.variants, this.tgtVariants] = [new Map(style.variants), new Map(style.tgt_variants)];
    this.known = new Set(style.characters);
    this.families = new Map(style.families.flatMap((family) => [...family].map((char) => [char, family[0]])));
    this.capitals = new Map(style.capitals.map((word) => [word.toLowerCase(), word]));
    const edges = (list) => new Map(list.toReversed().map((edge) => [this.plain([...edge]), [...edge]]));
    [this.starts, this.ends] = [edges(style.starts), edges(style.ends)];
  }

  plain = (chars) => readAs(this.families, chars.join("").replaceAll(" ", "").normalize("NFKC"));
  isUnknown = (char) => !this.known.has(char) && !matches("WHITESPACE", char) && !matches("HELD", char);

  /** A text without invisible characters that training has not, and with symbols for its spans. */
  visible(text, spans) {
    const chars = [...hold(text, patterns.SPANS, spans)];
    return chars.filter((char) => !(this.style && INVISIBLE.test(char) && this.isUnknown(char))).join("");
  }

  /** A sentence of a visible, normalized line, and what stands around its translation. */
  sentence(text, spans) {
    const chars = [...text];
    const [first, last] = [chars.findIndex((char) => OF_WORD.test(char)), chars.findLastIndex((char) => OF_WORD.test(char))];
    const core = chars.slice(first, last + 1);
    if (first < 0 || !/\p{L}/u.test(core.join(""))) return { before: text, text: "", after: "" };
    if (!this.style) return { before: "", text, after: "" };
    let [before, after] = [chars.slice(0, first), chars.slice(last + 1)];
    // What lines of training begin or end with belongs to the sentence, as near to the words as it stands.
    const starts = before.map((_, i) => before.slice(i)).filter((edge) => edge[0] !== " ");
    const stops = after.map((_, i) => after.slice(0, after.length - i)).filter((edge) => edge.at(-1) !== " ");
    let start = starts.find((edge) => this.starts.has(this.plain(edge))) ?? [];
    let stop = stops.find((edge) => this.ends.has(this.plain(edge))) ?? [];
    if (/^([.。]{2}|[…⋯])/u.test(after.join("")) && !this.ends.has(this.plain(after))) stop = [];
    [before, after] = [before.slice(0, before.length - start.length), after.slice(stop.length)];
    const [inside, around] = [this.plain(core), this.plain([...before, ...after])];
    if ([..."\"'("].some((char) => inside.includes(char) && around.includes(char))) { // a quotation may begin or end here
      [start, stop, before, after] = [[...before, ...start], [...stop, ...after], [], []];
    }
    const hasAddedEnd = this.style.has_ends && stop.length === 0;
    [start, stop] = [this.starts.get(this.plain(start)) ?? start, this.ends.get(this.plain(stop)) ?? stop];
    const isInCapitals = this.isInCapitals(core.join(""));
    const whole = [...start, this.withCapitals(core.join(""), isInCapitals), ...(hasAddedEnd ? this.style.ends[0] : stop)];
    return {
      before: readAs(this.tgtVariants, before),
      text: this.withKnown(whole.join(""), spans),
      after: readAs(this.tgtVariants, after),
      isInCapitals,
      hasAddedEnd,
    };
  }

  isInCapitals(core) {
    const isUpper = /\p{Uppercase}/u.test(core) && !/[\p{Lowercase}\p{Lt}]/u.test(core);
    return isUpper && core.match(/\p{Uppercase}/gu).length >= 4 && this.capitals.get(core.toLowerCase()) !== core;
  }

  /** A line in capitals, without any, or in title case, with the capitals that its words have in training. */
  withCapitals(core, isInCapitals) {
    const hasNone = core === core.toLowerCase() && core !== core.toUpperCase();
    const isTitle = core.split(" ").length >= 4 && /[\p{Uppercase}\p{Lt}]/u.test(core)
      && !/(^|\P{Cased})\p{Lowercase}|\p{Cased}[\p{Uppercase}\p{Lt}]/u.test(core);
    if (!isInCapitals && !hasNone && !isTitle) return core;
    const cased = core.replace(patterns.WORD, (word) => this.capitals.get(word.toLowerCase()) ?? word.toLowerCase());
    return this.style.has_capital_starts ? cased.replace(/^./su, (char) => char.toUpperCase()) : cased;
  }

  /** The text with characters that training has, and symbols for words and signs for which it has none. */
  withKnown(text, spans) {
    const read = readAs(this.variants, text);
    const unknown = [...new Set(read)].filter(this.isUnknown);
    const escaped = (chars) => chars.map((char) => `\\u{${char.codePointAt(0).toString(16)}}`).join("");
    const letters = escaped(unknown.filter((char) => /[\p{L}\p{M}]/u.test(char)));
    const others = escaped(unknown.filter((char) => !/[\p{L}\p{M}]/u.test(char)));
    const known = `[[\\p{L}\\p{N}]--[\\p{Nd}${patterns.UNSPACED.source}${letters}]]*`;
    const kinds = [letters && `(?:${known}[${letters}]+)+${known}`, others && `[${others}]+`].filter(Boolean);
    return kinds.length > 0 ? hold(read, new RegExp(kinds.join("|"), "gv"), spans) : read;
  }
}

class LineSplitter {
  constructor(tokenizer, hasSymbols, { tags, rules }) {
    Object.assign(this, { tokenizer, hasSymbols, tags, rules, reader: new Reader(rules.style) });
    this.spelling = new Map(rules.spelling);
    this.spellingPattern = new RegExp(rules.spelling_pattern, "gv");
  }

  /** The parts in which a line is translated, with what stands before each; what stands behind the last; the spans. */
  split(line) {
    const [parts, spans, { rules }] = [[], [], this];
    let gap = "";
    for (const text of line.split(patterns.LINE_BREAK)) {
      if (!matches("VISIBLE", text)) {
        gap += text;
        continue;
      }
      const [, first, last] = rules.style ? text.match(/^([ \t\u00a0\u202f]*).*?([ \t\u00a0\u202f]*)$/su) : ["", "", ""];
      gap += first;
      const visible = normalize(this.reader.visible(text, spans));
      this.sentences(visible.replace(this.spellingPattern, (char) => this.spelling.get(char))).forEach((one, number) => {
        const sentence = this.reader.sentence(one, spans);
        gap += (number > 0 ? rules.space : "") + sentence.before;
        this.parts(sentence.text, sentence).forEach((part, n) => {
          parts.push({ ...part, before: gap + (n > 0 ? rules.space : "") });
          gap = "";
        });
        gap += sentence.after;
      });
      gap += last;
    }
    return { parts, end: gap, spans };
  }

  sentences(text) {
    const isOne = this.rules.saw_several_sentences && this.encodeIfShort(numberedAnew(text)[0]) !== null;
    return isOne ? [text] : sentences(text, this.rules.abbreviations);
  }

  /** A sentence, which is cut near its middle until each part is short enough for the model, and has few spans. */
  parts(text, sentence) {
    const [bare, marks] = this.hasSymbols ? [text, []] : withoutMarks(text);
    const [plain, symbols] = numberedAnew(bare);
    const [ids, chars] = [this.encodeIfShort(plain), [...text]];
    if (chars.length > 1 && (ids === null || symbols.length > N_SYMBOLS)) return halves(chars).flatMap((half) => this.parts(half, sentence));
    const all = ids ?? this.encode(plain); // one character can take several byte pieces
    return all.length > 0 ? [{ ids: all, symbols, marks, sentence }] : [];
  }

  encode(text) {
    const ids = this.tokenizer.encode(text);
    return ids.length > 0 ? [...this.tags, ...ids] : ids;
  }

  encodeIfShort(text) {
    if (text.length > 32 * this.rules.max_tokens) return null; // too long, whatever its pieces are
    const ids = this.encode(text);
    return ids.length <= this.rules.max_tokens ? ids : null;
  }
}
