"use strict";
const { runs, sets, markers, dashes } = JSON.parse(document.getElementById("data").textContent);
const isAlone = runs.length === 1;
const PAGE = 20; // sentences that are drawn at once
const byId = (id) => document.getElementById(id);

// Text and numbers ----------------------------------------------------------------------------------------------------

function element(tag, className, text, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined && text !== null) made.textContent = text; // text only ever enters the page here
  made.append(...children);
  return made;
}
function drawn(tag, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}
const whole = (n) => Number(n).toLocaleString("en");
const short = (n) => Math.abs(n) >= 1000 ? whole(Math.round(n)) : String(Number(n.toPrecision(3)));
const colour = (run) => "var(--r" + run % 6 + ")";

// Charts --------------------------------------------------------------------------------------------------------------

const WIDTH = 400, HEIGHT = 220, LEFT = 46, RIGHT = 12, TOP = 8, BOTTOM = 26;

function ticks(low, high, isLog) {
  if (isLog) {
    const found = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++)
      for (const n of [1, 2, 5]) if (n * 10 ** power >= low && n * 10 ** power <= high) found.push(n * 10 ** power);
    if (found.length > 7) return found.filter((tick) => Number.isInteger(Number(Math.log10(tick).toFixed(9))));
    if (found.length > 2) return found;
  }
  const rough = (high - low) / 4 || 1, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((n) => n * power >= rough) * power, found = [];
  for (let i = Math.ceil(low / step); i * step <= high + step * 1e-9; i++) found.push(Number((i * step).toPrecision(12)));
  return found;
}
function marker(run, x, y, title) { // shapes tell runs apart without colour
  const made = drawn("path", { class: "marker", d: "M" + x + " " + y + markers[run % markers.length], fill: colour(run) });
  made.append(drawn("title", {}, title));
  return made;
}
// series: { name, run, points: [[x, y, low, high]], isThin, best: x }; labels: names of x = 0, 1, 2 ...
function chart({ title, note, series, xTitle, xMax = -Infinity, labels, isLog = false }) {
  const isShown = ([, y]) => y !== null && (!isLog || y > 0);
  const points = series.flatMap((one) => one.points.filter(isShown));
  const figure = element("figure", "", null, element("figcaption", "", title + " ", element("small", "", note ?? "")));
  if (!points.length) return figure;
  const xs = points.map(([x]) => x), bounds = points.flatMap(([, y, low, high]) => [low ?? y, high ?? y]);
  const x0 = labels ? -0.5 : 0, x1 = labels ? labels.length - 0.5 : Math.max(xMax, ...xs) || 1;
  let y0 = Math.min(...bounds), y1 = Math.max(...bounds);
  const space = (y1 - y0 || Math.abs(y1) || 1) * 0.06;
  [y0, y1] = isLog ? [y0 / 1.1, y1 * 1.1] : [y0 >= 0 && y0 < y1 / 2 ? 0 : y0 - space, y1 + space];
  const measure = isLog ? Math.log : (y) => y;
  const atX = (x) => LEFT + (x - x0) / (x1 - x0) * (WIDTH - LEFT - RIGHT);
  const atY = (y) => HEIGHT - BOTTOM - (measure(y) - measure(y0)) / (measure(y1) - measure(y0)) * (HEIGHT - TOP - BOTTOM);
  const svg = drawn("svg", { viewBox: "0 0 " + WIDTH + " " + HEIGHT, role: "img", "aria-label": title });
  for (const y of ticks(y0, y1, isLog)) {
    svg.append(drawn("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: atY(y), y2: atY(y) }));
    svg.append(drawn("text", { x: LEFT - 6, y: atY(y) + 4, "text-anchor": "end" }, short(y)));
  }
  const xTicks = labels ? labels.map((label, x) => [x, label]) : ticks(x0, x1, false).map((x) => [x, short(x)]);
  for (const [x, label] of xTicks) svg.append(drawn("text", { x: atX(x), y: HEIGHT - 10, "text-anchor": "middle" }, label));
  svg.append(drawn("text", { x: WIDTH - RIGHT, y: HEIGHT + 2, "text-anchor": "end" }, xTitle));
  series.forEach((one, number) => {
    const moved = labels ? (number - (series.length - 1) / 2) * 6 : 0;
    const path = one.points.map((point, i) => isShown(point)
      ? (i && isShown(one.points[i - 1]) ? "L" : "M") + atX(point[0]).toFixed(1) + " " + atY(point[1]).toFixed(1) : "").join("");
    const look = { d: path, fill: "none", stroke: colour(one.run), "stroke-dasharray": dashes[one.run % dashes.length] };
    svg.append(drawn("path", { ...look, "stroke-width": one.isThin ? 1.3 : 2, "stroke-linejoin": "round" }));
    const marked = one.points.filter(isShown), stride = Math.ceil(marked.length / 30);
    marked.forEach(([x, y, low, high], i) => {
      const at = atX(x) + moved;
      if (typeof low === "number") svg.append(drawn("line", { x1: at, x2: at, y1: atY(low), y2: atY(high), stroke: colour(one.run), "stroke-width": 1.5 }));
      if (i % stride === 0 && (!one.isThin || marked.length === 1)) svg.append(marker(one.run, at, atY(y), one.name + ": " + short(y)));
      if (x === one.best) svg.append(drawn("circle", { class: "best", cx: at, cy: atY(y), r: 7, stroke: colour(one.run) }));
    });
  });
  figure.append(svg, readout(svg, series, labels, xTitle, (place) => x0 + (place - LEFT) / (WIDTH - LEFT - RIGHT) * (x1 - x0), atX));
  return figure;
}
function readout(svg, series, labels, xTitle, xAt, atX) { // the values below the pointer; those of the best checkpoint without it
  const line = element("div", "readout"), cursor = drawn("line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM });
  const value = (one, y) => one.name + " " + (y === null ? "not finite" : short(y));
  const best = series.map((one) => [one, one.points.find(([x]) => x === one.best)]).filter(([, point]) => point);
  const resting = best.length ? "best checkpoint: " + best.map(([one, [, y]]) => value(one, y)).join(", ") : "";
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect(), x = xAt((event.clientX - box.left) / box.width * WIDTH);
    const nearest = series.map((one) => one.points.reduce((a, b) => Math.abs(b[0] - x) < Math.abs(a[0] - x) ? b : a));
    const at = nearest.reduce((a, b) => Math.abs(b[0] - x) < Math.abs(a[0] - x) ? b : a)[0];
    line.textContent = (labels ? labels[at] : xTitle + " " + short(at)) + ": " + series.map((one, i) => value(one, nearest[i][1])).join(", ");
    cursor.setAttribute("x1", atX(at));
    cursor.setAttribute("x2", atX(at));
    svg.append(cursor);
  });
  svg.addEventListener("pointerleave", () => { line.textContent = resting; cursor.remove(); });
  line.textContent = resting;
  return line;
}

const CURVES = [ // `dev` are the curves of validations; thin lines without marks are those of training
  { title: "Loss", note: "nats for each target token; lower is better; thick: dev, thin: training", dev: "dev_loss", training: "train_loss" },
  { title: "chrF of the dev set", note: "higher is better", dev: "chrf" },
  { title: "BLEU of the dev set", note: "higher is better", dev: "bleu" },
  { title: "Training objective", note: "with label smoothing and R-Drop: not to be compared with the dev loss", training: "loss" },
  { title: "Learning rate", training: "learning_rate" },
  { title: "Gradient norm", note: "before clipping", training: "grad_norm", isLog: true },
  { title: "Speed", note: "target tokens a second", training: "tokens_per_second" },
];
function showCurves() {
  const buttons = [...byId("axes").children];
  const draw = (axis) => { // 0: by step, 1: by minute
    byId("charts").replaceChildren();
    const xMax = Math.max(...runs.map((run) => (axis ? run.minutes : run.max_steps) ?? 0));
    for (const curve of CURVES) {
      const series = ["dev", "training"].filter((kind) => curve[kind]).flatMap((kind) => runs.map((run, i) => {
        const points = (run.curves[curve[kind]] ?? []).filter((point) => point[axis] !== null), isThin = kind === "training";
        const best = isThin ? undefined : points.find(([step]) => step === run.best_step)?.[axis];
        return { name: isAlone ? kind : run.name + (curve.dev && curve.training ? " " + kind : ""), run: isAlone && curve.dev ? i + isThin : i, isThin, best, points: points.map((point) => [point[axis], point[2]]) };
      })).filter((one) => one.points.length);
      if (series.length) byId("charts").append(chart({ ...curve, series, xTitle: axis ? "minute" : "step", xMax }));
    }
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", i === axis));
  };
  buttons.forEach((button, axis) => button.addEventListener("click", () => draw(axis)));
  draw(0);
}
function showGroups() {
  for (const set of sets) for (const [title, xTitle, groups] of [
    ["chrF by the length of the source", "words", set.by_length],
    ["chrF by the rarest word of the source", "how often training has it", set.by_rarity],
  ]) if (groups.length) byId("groups").append(chart({
    title, note: set.name, xTitle, labels: groups.map((group) => group.label),
    series: Object.keys(set.by_run).map((run) => ({ name: isAlone ? "chrF" : runs[run].name, run: Number(run),
      points: groups.map(({ means: { [run]: one } }, x) => [x, one.mean, one.low, one.high]) })),
  }));
}

// Sentences -----------------------------------------------------------------------------------------------------------

const DOUBTS = { looped: "repeats itself", copied: "copies the source", length: "unusual length", unattended: "hardly attended to", unseen: "characters unknown from training",
  numbers: "numbers differ", placeholders: "placeholders are lost" };
const split = (text, isSpaced) => isSpaced ? text.split(" ") : [...text];

function markDifferences(words, others, isSpaced, className) { // marks the words that a longest common subsequence leaves out
  const line = element("span"), n = words.length, m = others.length, width = m + 1;
  const isTooLong = n * m > 250000, lengths = new Uint16Array(isTooLong ? 0 : (n + 1) * width);
  for (let i = n - 1; i >= 0 && !isTooLong; i--) for (let j = m - 1; j >= 0; j--)
    lengths[i * width + j] = words[i] === others[j] ? lengths[(i + 1) * width + j + 1] + 1 : Math.max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
  for (let i = 0, j = 0; i < n; i++) {
    while (!isTooLong && j < m && words[i] !== others[j] && lengths[i * width + j + 1] >= lengths[(i + 1) * width + j]) j++;
    const isCommon = isTooLong || j < m && words[i] === others[j];
    if (isCommon) j++;
    line.append(isCommon ? document.createTextNode(words[i]) : element("mark", className, words[i]), isSpaced ? " " : "");
  }
  return line;
}
function offer(select, pairs) { // what was chosen stays, where it is offered still
  const before = select.value;
  select.replaceChildren(...pairs.map(([value, text]) => Object.assign(element("option", "", text), { value, selected: value === before })));
  select.parentElement.hidden = pairs.length < 2;
}
function showSentences() {
  const [setChoice, ownChoice, otherChoice, orderChoice, search, list, more] = ["set", "own", "other", "order", "search", "list", "more"].map(byId);
  let set, own, other, order = [], nShown = 0;
  offer(setChoice, sets.map((one, i) => [String(i), one.name]));
  setChoice.addEventListener("change", chooseSet);
  for (const select of [ownChoice, otherChoice]) select.addEventListener("change", chooseRuns);
  orderChoice.addEventListener("change", fill);
  search.addEventListener("input", fill);
  more.addEventListener("click", showMore);
  chooseSet();

  function chooseSet() {
    set = sets[setChoice.value];
    const names = Object.keys(set.by_run).map((run) => [run, runs[run].name]);
    offer(ownChoice, names);
    offer(otherChoice, names.length > 1 ? [...names.slice(1), names[0], ["", "the reference only"]] : []);
    chooseRuns();
  }
  function chooseRuns() {
    own = set.by_run[ownChoice.value];
    other = set.by_run[otherChoice.value];
    offer(orderChoice, [
      ...other ? [["changed", "most changed"], ["better", "most better"], ["worse", "most worse"]] : [],
      ["worst", "worst first"], ["best", "best first"], ["doubts", "doubtful first"],
      ...own.estimate.some((one) => one !== null) ? [["estimate", "lowest estimate first"]] : [], ["file", "as in the file"]]);
    byId("beside-reference").hidden = Boolean(other);
    byId("beside-other").hidden = !other;
    byId("agreement").textContent = own.agreement ? "The estimate is made without the reference: here its correlation with the true chrF is "
      + own.agreement[0].toFixed(2) + "; the tenth with the lowest estimates has chrF " + own.agreement[2].toFixed(0) + ", the highest tenth " + own.agreement[3].toFixed(0) + "." : "";
    fill();
  }
  function fill() {
    const change = (i) => other.chrf[i] - own.chrf[i], wanted = search.value.toLowerCase();
    const has = (i) => [set.sources[i], set.references[i], own.texts[i], other?.texts[i] ?? ""].some((text) => text.toLowerCase().includes(wanted));
    const key = { worst: (i) => own.chrf[i], best: (i) => -own.chrf[i], doubts: (i) => -(own.doubts[i]?.length ?? 0), estimate: (i) => own.estimate[i] ?? 999,
      changed: (i) => -Math.abs(change(i)), better: (i) => -change(i), worse: change, file: (i) => i }[orderChoice.value];
    order = set.sources.map((_, i) => i).filter((i) => !wanted || has(i)).map((i) => [key(i), i]).sort((a, b) => a[0] - b[0] || a[1] - b[1]).map(([, i]) => i);
    list.replaceChildren();
    nShown = 0;
    showMore();
  }
  function showMore() {
    list.append(...order.slice(nShown, nShown + PAGE).map(sentence));
    nShown = Math.min(nShown + PAGE, order.length);
    more.hidden = nShown >= order.length;
    byId("count").textContent = whole(nShown) + " of " + whole(order.length) + " sentences are shown.";
  }
  function sentence(i) {
    const about = element("div", "about", null, element("span", "", "line " + whole(set.lines[i])), element("span", "", "chrF ", element("b", "", own.chrf[i].toFixed(1))));
    const { tgt_lang: tag, is_spaced: isSpaced } = set, lines = element("dl");
    const [out, ref, second] = [own.texts[i], set.references[i], other?.texts[i] ?? ""].map((text) => split(text, isSpaced));
    const row = (name, content, lang) => {
      const value = element("dd", "", null, content);
      value.lang = lang;
      value.dir = "auto";
      lines.append(element("dt", "", name), value);
    };
    if (typeof own.estimate[i] === "number") about.append(element("span", "", "estimated " + own.estimate[i].toFixed(0)));
    if (other) about.append(element("span", "", runs[otherChoice.value].name + " " + other.chrf[i].toFixed(1) + " (" + (other.chrf[i] < own.chrf[i] ? "" : "+") + (other.chrf[i] - own.chrf[i]).toFixed(1) + ")"));
    for (const [kind, detail] of own.doubts[i] ?? []) about.append(element("span", "doubt", DOUBTS[kind] + ": " + detail));
    row("source", set.sources[i], set.src_lang);
    if (other) {
      row(runs[ownChoice.value].name, markDifferences(out, second, isSpaced), tag);
      row(runs[otherChoice.value].name, markDifferences(second, out, isSpaced), tag);
      row("reference", set.references[i], tag);
    } else {
      row("translation", markDifferences(out, ref, isSpaced), tag);
      row("reference", markDifferences(ref, out, isSpaced, "missing"), tag);
    }
    const heats = [[own, ownChoice.value], [other, otherChoice.value]].filter(([of]) => of?.attention[i]);
    return element("article", "sentence", null, about, lines, ...heats.map(([of, run]) => attention(of.attention[i], other ? "attention of " + runs[run].name : "attention")));
  }
}
function attention({ src, tgt, weights }, title) {
  const box = element("details", "attention", null, element("summary", "", title)), heat = element("table", "heat");
  box.addEventListener("toggle", () => {
    if (heat.isConnected) return;
    const most = Math.max(1, ...weights.flat());
    heat.append(element("thead", "", null, element("tr", "", null, element("td"), ...src.map((piece) => element("th", "", piece)))));
    heat.append(element("tbody", "", null, ...weights.map((row, t) => element("tr", "", null, element("th", "", tgt[t]), ...row.map((weight, s) => {
      const cell = element("td");
      cell.title = tgt[t] + " \u2190 " + src[s] + ": " + (weight / 100).toFixed(2);
      cell.style.background = "color-mix(in oklab, var(--w3) " + 100 * weight / most + "%, var(--w0))";
      return cell;
    })))));
    box.append(element("p", "", "Each row is a piece about to be written, each column a piece of the source: the stronger the colour, the more it is attended to (from 0 to " + (most / 100).toFixed(2) + ", the mean of all heads and layers)."), element("div", "scroll", null, heat));
  });
  return box;
}

for (const code of document.querySelectorAll(".language")) { // by its name, where the browser knows it
  try { code.textContent = new Intl.DisplayNames(["en"], { type: "language" }).of(code.textContent) ?? code.textContent; } catch { /* no such code */ }
}
if (byId("axes")) showCurves();
if (sets.length) {
  showGroups();
  showSentences();
}
addEventListener("beforeprint", () => document.querySelectorAll("details:not(.attention)").forEach((details) => { details.open = true; }));
