{ // a block, so that no name here meets one of a backend
const N_ALTERNATIVES = 4, N_AT_ONCE = 16; // other translations of a line; lines that one request translates
const WAIT_MS = 250; // after the last key
const RIGHT_TO_LEFT = /^(ar|arc|ckb|dv|fa|he|ps|sd|ug|ur|yi)\b/;
const backend = window.mtBackend, mostAtOnce = Math.min(4000, backend.mostCharacters ?? 4000);
const [source, target, swap, text, shade, output] = ["source", "target", "swap", "text", "shade", "lines"].map(byId);
let languages = [], timer = 0;
let known = new Map(); // what the lines of the text became, by `key`
let lines = []; // what is shown, one for each line of the text: { written, result, node }
let running = new AbortController(), reading = new AbortController(), looking = new AbortController(); // for text, files, other translations
let panel = null; // below the line that was chosen
const kept = []; // corrections that only this page has

const key = (written) => [source.value, target.value, written].join("\n");
const textOf = (result) => result.chosen ?? result.texts[0];
const translation = () => lines.map(({ result }) => result ? textOf(result) : "").join("\n");
const reasonOf = ({ kind, detail }) => (DOUBTS[kind] ?? kind) + (detail ? ": " + detail : "");

function say(message, isBad = false) {
  byId("status").textContent = message;
  byId("status").classList.toggle("doubt", isBad);
}

function report(error) { // what a newer request has replaced is no error
  if (error.name !== "AbortError") say(error.message, true);
}

function button(label, action, className = "") {
  const made = element("button", className, label);
  made.addEventListener("click", action);
  return made;
}

function setLanguage(box, code) {
  box.lang = code.replaceAll("_", "-");
  box.dir = RIGHT_TO_LEFT.test(code) ? "rtl" : "auto";
  return box;
}

// Languages -----------------------------------------------------------------------------------------------------------

const targetsOf = (code) => languages.find((one) => one.code === code)?.targets ?? [];
const nameOf = (code) => languages.find((one) => one.code === code)?.name ?? code;

function offer(select, codes, wanted) {
  select.replaceChildren(...codes.map((code) => Object.assign(element("option", "", nameOf(code)), { value: code })));
  select.value = codes.includes(wanted) ? wanted : codes[0];
}

function chooseLanguages(from, to) { // or those nearest to them that are offered
  offer(source, languages.filter(({ targets }) => targets.length).map(({ code }) => code), from);
  offer(target, targetsOf(source.value), to);
  swap.disabled = !targetsOf(target.value).includes(source.value);
  swap.title = swap.disabled ? "There is no translator from " + nameOf(target.value) + " to " + nameOf(source.value) : "Swap the languages";
  for (const box of [text, shade]) setLanguage(box, source.value);
  setLanguage(output, target.value);
  location.replace("#" + source.value + "/" + target.value);
  lines = [];
  translate();
}

function swapLanguages() {
  const isShown = lines.map(({ written }) => written).join("\n") === text.value;
  if (isShown) text.value = lines.map(({ written, result }) => result ? textOf(result) : written).join("\n");
  chooseLanguages(target.value, source.value);
}

// Text ----------------------------------------------------------------------------------------------------------------

function typed() {
  clearTimeout(timer);
  timer = setTimeout(translate, WAIT_MS);
  shadeSource();
}

async function translate() { // the lines that are new; the answer to an earlier text is not waited for
  clearTimeout(timer);
  running.abort();
  const own = running = new AbortController();
  const request = { source: source.value, target: target.value, alternatives: 0 };
  const written = text.value ? text.value.split("\n") : [];
  const missing = [...new Set(written)].filter((line) => line.trim() && !known.has(key(line)));
  missing.sort((a, b) => (a.length > mostAtOnce) - (b.length > mostAtOnce)); // what may be refused holds up nothing
  known = new Map(written.map((line) => [key(line), known.get(key(line))]).filter(([, result]) => result));
  show(written);
  const isNew = missing.length > 0;
  output.setAttribute("aria-busy", isNew);
  try {
    while (missing.length) {
      const asked = missing.splice(0, 1);
      for (let size = asked[0].length; missing.length && asked.length < N_AT_ONCE; asked.push(missing.shift())) {
        if ((size += 1 + missing[0].length) > mostAtOnce) break;
      }
      const answer = await backend.translate({ ...request, q: asked.join("\n") }, own.signal);
      own.signal.throwIfAborted(); // a backend may not know how to stop
      asked.forEach((line, i) => known.set(key(line), answer.lines[i]));
      show(written);
    }
    if (byId("status").className) say("");
    if (isNew) byId("spoken").textContent = translation().slice(0, 500);
  } catch (error) {
    report(error);
  }
  if (running === own) output.setAttribute("aria-busy", "false");
}

function show(written) { // a line that has not changed keeps its place in the page, with what is open there
  const results = written.map((line) => known.get(key(line))), inUse = new Set(results);
  const same = new Map(lines.map((line) => [line.result, line]));
  lines = written.map((line, i) => {
    if (!results[i] && line.trim() && lines[i]?.result && !inUse.has(lines[i].result)) return lines[i]; // until its translation comes
    const before = results[i] && same.get(results[i]);
    same.delete(results[i]); // a line that is there twice is shown twice
    return before ?? { written: line, result: results[i], node: nodeOf(line, results[i]) };
  });
  const nodes = new Set(lines.map(({ node }) => node));
  for (const old of [...output.children]) if (!nodes.has(old)) old.remove();
  lines.forEach(({ node }, i) => { if (output.children[i] !== node) output.insertBefore(node, output.children[i] ?? null); });
  if (!lines.length) output.append(element("p", "placeholder", "The translation appears here"));
  byId("legend").hidden = !lines.some(({ result }) => Number.isFinite(result?.estimate));
  byId("copy").hidden = byId("hint").hidden = !lines.some(({ result }) => result);
  byId("clear").hidden = !text.value;
  shadeSource();
}

function nodeOf(written, result) {
  const node = element("div", "line");
  if (result) draw(node, result);
  else node.append(written.trim() ? "\u2026" : "\u00a0");
  return node;
}

function draw(node, result) { // a line of the translation, and below it why it is doubted
  const isOwn = result.chosen === undefined, doubts = isOwn ? result.doubts : [];
  const said = setLanguage(element("div", "said"), target.value);
  said.append(...(isOwn ? splitAt(result.texts[0], result.target_words, (word, i) => {
    const reasons = doubts.filter(({ words }) => words.includes(i)).map(reasonOf), span = element("span", reasons.length ? "word doubted" : "word", word);
    span.title = reasons.join("\n");
    span.addEventListener("pointerenter", () => look(node, i));
    return span;
  }) : [result.chosen]));
  said.tabIndex = 0;
  said.setAttribute("role", "button");
  said.setAttribute("aria-expanded", "false");
  said.addEventListener("click", () => toggle(node, result));
  said.addEventListener("keydown", (event) => moveLook(event, node, result));
  for (const leave of ["pointerleave", "blur"]) said.addEventListener(leave, () => look(node, null));
  node.replaceChildren(said);
  if (result.isKept) node.append(element("small", "aside", "corrected"));
  else if (isOwn && Number.isFinite(result.estimate)) {
    const estimate = element("small", result.is_low ? "aside doubt" : "aside", result.estimate.toFixed(0));
    estimate.title = "estimated quality: chrF " + result.estimate.toFixed(1) + " of 100";
    node.append(estimate);
  }
  if (doubts.length) node.append(element("p", "doubt", doubts.map(reasonOf).join("; ")));
}

function splitAt(whole, words, wrap) { // the text in pieces; `wrap` makes an element of each word that is found in its turn
  const pieces = [];
  let at = 0;
  words.forEach((word, i) => {
    const start = whole.indexOf(word, at);
    if (!word || start < 0) return;
    pieces.push(whole.slice(at, start), wrap(word, i));
    at = start + word.length;
  });
  return [...pieces, whole.slice(at)];
}

// Attention -----------------------------------------------------------------------------------------------------------

function look(node, word) { // shades what a word of the translation was made from; null: no word
  const { result } = lines.find((line) => line.node === node) ?? {};
  node.querySelectorAll(".word").forEach((span, i) => span.classList.toggle("looked", i === word));
  shadeSource(node, result?.attention[word]);
}

function moveLook(event, node, result) { // the arrow keys go from word to word
  if (!["Enter", " ", "ArrowLeft", "ArrowRight"].includes(event.key)) return;
  event.preventDefault();
  if (!event.key.startsWith("Arrow")) return toggle(node, result);
  const words = [...node.querySelectorAll(".word")], at = words.findIndex((span) => span.classList.contains("looked"));
  const isForward = (event.key === "ArrowRight") === (getComputedStyle(event.target).direction === "ltr");
  const word = Math.max(0, Math.min(words.length - 1, at < 0 ? 0 : at + (isForward ? 1 : -1)));
  look(node, word);
  const weights = result.attention[word] ?? [], from = result.source_words.filter((_, i) => weights[i] > Math.max(...weights) / 2);
  byId("spoken").textContent = (words[word]?.textContent ?? "") + " \u2190 " + from.join(" ");
}

function missedIn({ kind, detail }) { // the words of the source that a doubt names
  if (kind === "numbers") detail = detail.replace(/^lost |(^|, )invented .*/g, "");
  return ["numbers", "placeholders", "unattended"].includes(kind) ? detail.split(" ") : [];
}

function shadeSource(looked, weights = []) { // a copy of the text lies behind it, as a text area shows no colours of its own
  const most = Math.max(...weights);
  const shaded = lines.flatMap(({ written, result, node }) => {
    const missed = result && result.chosen === undefined ? result.doubts.flatMap(missedIn) : [];
    if (!result || (node !== looked && !missed.length)) return [written, "\n"];
    return [...splitAt(written, result.source_words, (word, i) => {
      const span = element("span", missed.includes(word) ? "doubted" : "", word);
      if (node === looked && weights[i] > most / 8) span.style.background = "color-mix(in oklab, var(--strong) " + 45 * weights[i] / most + "%, transparent)";
      return span;
    }), "\n"];
  });
  const isShown = lines.map(({ written }) => written).join("\n") === text.value;
  shade.replaceChildren(...(isShown ? shaded : [text.value]), "\u200b"); // which gives the last line its height
}

// Other translations, corrections -------------------------------------------------------------------------------------

function toggle(node, result) {
  const isOpen = panel?.parentElement === node;
  closePanel();
  if (!isOpen) openPanel(node, result);
}

function closePanel() {
  const node = panel?.parentElement;
  looking.abort();
  panel?.remove();
  panel = null;
  node?.querySelector(".said").setAttribute("aria-expanded", "false");
  return node;
}

async function openPanel(node, result) {
  looking = new AbortController();
  const { written } = lines.find((line) => line.node === node), pair = { source: source.value, target: target.value };
  const correction = setLanguage(element("textarea", "", textOf(result)), target.value);
  correction.rows = 1 + textOf(result).length / 60;
  correction.setAttribute("aria-label", "Correct this translation");
  const keep = button("Keep this correction", () => keepCorrection(node, result, { ...pair, q: written, text: correction.value }), "main");
  const others = element("div", "others", element("p", "", "Looking for other translations\u2026"));
  keep.disabled = true;
  correction.addEventListener("input", () => { keep.disabled = !correction.value.trim() || correction.value === textOf(result); });
  correction.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault(); // a line of the text stays one line
    keep.click();
  });
  panel = element("div", "panel", element("p", "", "Correct this translation"), correction, element("div", "tools", keep, button("Close", () => closePanel().querySelector(".said").focus())), others);
  node.append(panel);
  node.querySelector(".said").setAttribute("aria-expanded", "true");
  const { lines: [found] } = await backend.translate({ ...pair, q: written, alternatives: N_ALTERNATIVES }, looking.signal)
    .catch((error) => { report(error); return { lines: [{ texts: [] }] }; });
  const use = (chosen) => {
    correction.value = chosen;
    correction.dispatchEvent(new Event("input"));
    correction.focus();
  };
  const texts = [...new Set([...result.texts, ...found.texts])].filter((one) => one !== textOf(result)).slice(0, N_ALTERNATIVES);
  others.replaceChildren(element("p", "", texts.length ? "Other translations" : "There are no other translations."),
    ...texts.map((one) => setLanguage(button(one, () => use(one)), target.value)));
}

async function keepCorrection(node, result, correction) {
  correction.text = correction.text.replace(/\s+/g, " ").trim();
  try {
    await backend.correct?.(correction);
  } catch (error) {
    return report(error);
  }
  if (!backend.correct) kept.push(correction);
  byId("download").hidden = !kept.length;
  Object.assign(result, { chosen: correction.text, isKept: true });
  closePanel();
  for (const line of lines) if (line.result === result) draw(line.node, result);
  node.querySelector(".said").focus();
  say(backend.correct ? "Kept. The next training with --corrections learns from it." : "Kept in this page: download the corrections before you close it.");
}

function save(name, blob) {
  const link = Object.assign(element("a"), { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000); // the browser may ask where to before it reads
}

function saveCorrections() { // one table for each direction, as `mt train` reads it
  const directionOf = (one) => one.source + "\t" + one.target;
  for (const direction of new Set(kept.map(directionOf))) {
    const rows = kept.filter((one) => directionOf(one) === direction);
    const table = [direction, ...rows.map(({ q, text }) => q.replaceAll("\t", " ").trim() + "\t" + text)].join("\n") + "\n";
    save("corrections." + direction.replace("\t", "-") + ".tsv", new Blob([table], { type: "text/tab-separated-values" }));
  }
  kept.length = 0;
  byId("download").hidden = true;
}

// Files, the clipboard, keys ------------------------------------------------------------------------------------------

async function columnOf(file) { // of a table: which one is to be translated, null when the question is closed
  const dialog = byId("table"), isText = !/\.xlsx$/i.test(file.name);
  const [row] = isText ? (await file.slice(0, 400).text()).split(/\r?\n/) : [];
  byId("table-name").textContent = file.name + " is a table." + (row ? " Its first row: " + row : "");
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((done) => dialog.addEventListener("close", () => done(dialog.returnValue || null), { once: true }));
}

async function translateFiles(files) {
  if (!backend.file) return say("This page translates no files.", true);
  reading.abort();
  const { signal } = reading = new AbortController();
  const failed = [];
  for (const file of files) {
    try {
      const column = /\.(csv|tsv|xlsx)$/i.test(file.name) ? await columnOf(file) : "";
      if (column === null) continue;
      say("Translating " + file.name + "\u2026 Escape stops it.");
      const { name, blob } = await backend.file({ source: source.value, target: target.value, file, column }, signal);
      save(name, blob);
      say(file.name + " is translated: " + name);
    } catch (error) {
      if (error.name === "AbortError") break;
      failed.push(file.name + ": " + error.message);
    }
  }
  if (failed.length) say(failed.join("; "), true);
}

function copy() { // by a selection, as pages that came without encryption have no navigator.clipboard
  const box = Object.assign(element("textarea", "unseen"), { value: translation() });
  document.body.append(box);
  box.select();
  const isCopied = document.execCommand("copy");
  box.remove();
  byId("copy").focus();
  say(isCopied ? "Copied." : "This browser does not let a page copy.", !isCopied);
}

function stop() {
  clearTimeout(timer);
  for (const one of [running, reading]) one.abort();
  say("");
  closePanel()?.querySelector(".said").focus();
}

source.addEventListener("change", () => chooseLanguages(source.value, target.value));
target.addEventListener("change", () => chooseLanguages(source.value, target.value));
swap.addEventListener("click", swapLanguages);
text.addEventListener("input", typed);
byId("copy").addEventListener("click", copy);
byId("clear").addEventListener("click", () => { text.value = ""; translate(); text.focus(); });
byId("download").addEventListener("click", saveCorrections);
byId("choose").addEventListener("click", () => byId("file").click());
byId("file").addEventListener("change", ({ target: chosen }) => translateFiles([...chosen.files]).then(() => { chosen.value = ""; }));
byId("choose").hidden = !backend.file;
byId("choose-column").addEventListener("click", () => byId("table").close(byId("column").value.trim()));
byId("close-table").addEventListener("click", () => byId("table").close());
byId("column").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.isComposing) return;
  event.preventDefault(); // the text, which has the focus again, gets no line end
  byId("choose-column").click();
});
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !event.isComposing) stop();
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target === text) translate();
});
for (const [kind, isOver] of [["dragover", true], ["dragleave", false], ["drop", false]]) addEventListener(kind, (event) => {
  if (!event.dataTransfer.types.includes("Files")) return; // text that is dragged goes where it is dropped
  event.preventDefault();
  document.body.classList.toggle("dropping", isOver);
  if (kind === "drop") translateFiles([...event.dataTransfer.files]);
});
addEventListener("beforeunload", (event) => { if (kept.length) event.preventDefault(); });
backend.languages().then((found) => {
  languages = found;
  chooseLanguages(...decodeURIComponent(location.hash.slice(1)).split("/"));
}).catch(report);
}
