const data = JSON.parse(document.getElementById("data").textContent);
const { runs, sets } = data;
const isAlone = runs.length === 1;
const N_AT_ONCE = 20; // sentences
const MARKERS = [ // each run has a shape and a line of its own, so that runs are told apart without colours
  "m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0", "m-3-3h6v6h-6z", "m0-4l4 7h-8z", "m0-4.5l4 4.5l-4 4.5l-4-4.5z",
  "m-4-3h8l-4 7z", "m-4-1.5h8v3h-8z",
];
const DASHES = ["", "7 3", "2 3", "9 3 2 3", "4 2 1 2", "1 4"];

const whole = (n) => Number(n).toLocaleString("en");
const short = (n) => n === null ? "not finite" : Math.abs(n) >= 1000 ? whole(Math.round(n)) : String(Number(n.toPrecision(3)));
const colour = (run) => "var(--r" + run % 6 + ")";

// Charts --------------------------------------------------------------------------------------------------------------

const WIDTH = 400, HEIGHT = 220, LEFT = 46, RIGHT = 12, TOP = 8, BOTTOM = 26;

function drawn(tag, attributes, ...content) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...content);
  return made;
}
const line = (run, attributes) =>
  drawn("path", { fill: "none", stroke: colour(run), "stroke-width": 2, "stroke-dasharray": DASHES[run % 6], ...attributes });
const marker = (run, x, y, title = "") =>
  drawn("path", { class: "marker", d: "M" + x + " " + y + MARKERS[run % 6], fill: colour(run) }, drawn("title", {}, title));

function ticks(low, high) {
  const rough = (high - low) / 4 || 1, power = 10 ** Math.floor(Math.log10(rough)), found = [];
  const step = [1, 2, 5, 10].find((n) => n * power >= rough) * power;
  for (let i = Math.ceil(low / step); i * step <= high + step * 1e-9; i++) found.push(Number((i * step).toPrecision(12)));
  return found;
}

// series: { name, run, points: [[x, y, low, high]], isThin, best: x }; labels: names of x = 0, 1, 2 ...
function chart({ title, note, series, xTitle, xMax = 0, labels }) {
  const svg = drawn("svg", { viewBox: "0 0 " + WIDTH + " " + HEIGHT, role: "img", "aria-label": title });
  const figure = element("figure", "", element("figcaption", "", title + " ", element("small", "", note ?? "")), svg);
  const isFinite = ([, y]) => y !== null;
  const points = series.flatMap((one) => one.points.filter(isFinite));
  const bounds = points.flatMap(([, y, low, high]) => [low ?? y, high ?? y]);
  const [x0, x1] = labels ? [-0.5, labels.length - 0.5] : [0, Math.max(xMax, ...points.map(([x]) => x)) || 1];
  const least = Math.min(...bounds), most = Math.max(...bounds), space = (most - least || Math.abs(most) || 1) * 0.06;
  const [y0, y1] = [least >= 0 && least < most / 2 ? 0 : least - space, most + space];
  const atX = (x) => LEFT + (x - x0) / (x1 - x0) * (WIDTH - LEFT - RIGHT);
  const atY = (y) => HEIGHT - BOTTOM - (y - y0) / (y1 - y0) * (HEIGHT - TOP - BOTTOM);
  for (const y of points.length ? ticks(y0, y1) : []) {
    svg.append(drawn("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: atY(y), y2: atY(y) }));
    svg.append(drawn("text", { x: LEFT - 6, y: atY(y) + 4, "text-anchor": "end" }, short(y)));
  }
  for (const [x, label] of labels ? Object.entries(labels) : ticks(x0, x1).map((x) => [x, short(x)]))
    svg.append(drawn("text", { x: atX(Number(x)), y: HEIGHT - 10, "text-anchor": "middle" }, label));
  svg.append(drawn("text", { x: WIDTH - RIGHT, y: HEIGHT + 2, "text-anchor": "end" }, xTitle));
  series.forEach((one, number) => {
    const moved = labels ? (number - (series.length - 1) / 2) * 6 : 0; // so that intervals stand side by side
    const finite = one.points.filter(isFinite), stride = Math.ceil(finite.length / 30);
    const d = finite.map(([x, y], i) => (i ? "L" : "M") + atX(x).toFixed(1) + " " + atY(y).toFixed(1)).join("");
    svg.append(line(one.run, { d, "stroke-width": one.isThin ? 1.3 : 2 }));
    finite.forEach(([x, y, low, high], i) => {
      const at = atX(x) + moved;
      if (low !== undefined) svg.append(line(one.run, { d: "M" + at + " " + atY(low) + "V" + atY(high), "stroke-dasharray": "" }));
      if (i % stride === 0 && (!one.isThin || finite.length === 1)) svg.append(marker(one.run, at, atY(y), one.name + ": " + short(y)));
      if (x === one.best) svg.append(drawn("circle", { class: "best", cx: at, cy: atY(y), r: 7, stroke: colour(one.run) }));
    });
  });
  figure.append(readout(svg, series, labels, xTitle, (place) => x0 + (place - LEFT) / (WIDTH - LEFT - RIGHT) * (x1 - x0), atX));
  return figure;
}

function readout(svg, series, labels, xTitle, xAt, atX) { // the values below the pointer; those of the best checkpoint without it
  const shown = element("div", "readout"), cursor = drawn("line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM });
  const describe = (pairs) => pairs.map(([one, point]) => one.name + " " + short(point[1])).join(", ");
  const best = series.map((one) => [one, one.points.find(([x]) => x === one.best)]).filter(([, point]) => point);
  const rest = () => {
    shown.textContent = best.length ? "best checkpoint: " + describe(best) : "";
    cursor.remove();
  };
  const nearest = (points, x) => points.reduce((a, b) => Math.abs(b[0] - x) < Math.abs(a[0] - x) ? b : a);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect(), x = xAt((event.clientX - box.left) / box.width * WIDTH);
    const [at] = nearest(series.flatMap((one) => one.points), x);
    shown.textContent = (labels?.[at] ?? xTitle + " " + short(at)) + ": " + describe(series.map((one) => [one, nearest(one.points, x)]));
    cursor.setAttribute("x1", atX(at));
    cursor.setAttribute("x2", atX(at));
    svg.append(cursor);
  });
  svg.addEventListener("pointerleave", rest);
  rest();
  return shown;
}

const CURVES = [ // `dev` are the curves of validations; thin lines without marks are those of training
  { title: "Loss", note: "nats for each target token; lower is better; thick: dev, thin: training", dev: "dev_loss", training: "train_loss" },
  { title: "chrF of the dev set", note: "higher is better", dev: "chrf" },
  { title: "BLEU of the dev set", note: "higher is better", dev: "bleu" },
  { title: "Training objective", note: "with label smoothing and R-Drop: not to be compared with the dev loss", training: "loss" },
  { title: "Learning rate", training: "learning_rate" },
  { title: "Gradient norm", note: "before clipping", training: "grad_norm" },
  { title: "Speed", note: "target tokens a second", training: "tokens_per_second" },
];

function showCurves() {
  const buttons = [...byId("axes").children];
  const draw = (axis) => { // 0: by step, 1: by minute
    const xMax = Math.max(...runs.map((run) => (axis ? run.minutes : run.max_steps) ?? 0));
    byId("charts").replaceChildren();
    for (const curve of CURVES) {
      const series = [];
      for (const kind of ["dev", "training"]) runs.forEach((run, i) => {
        const isThin = kind === "training", found = (run.curves[curve[kind]] ?? []).filter((point) => point[axis] !== null);
        if (found.length) series.push({
          name: isAlone ? kind : run.name + (curve.dev && curve.training ? " " + kind : ""),
          run: i + (isAlone && Boolean(curve.dev) && isThin), isThin,
          best: isThin ? undefined : found.find(([step]) => step === run.best_step)?.[axis],
          points: found.map((point) => [point[axis], point[2]]),
        });
      });
      if (series.length) byId("charts").append(chart({ ...curve, series, xTitle: axis ? "minute" : "step", xMax }));
    }
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", i === axis));
  };
  buttons.forEach((button, axis) => button.addEventListener("click", () => draw(axis)));
  if (!isAlone) byId("key").append(...runs.map(({ name }, run) =>
    element("li", "", drawn("svg", { viewBox: "0 0 34 12" }, line(run, { d: "M0 6H34" }), marker(run, 17, 6)), name)));
  draw(0);
}

const LENGTHS = [[3, "up to 3"], [6, "4 to 6"], [10, "7 to 10"], [15, "11 to 15"], [25, "16 to 25"], [40, "26 to 40"], [Infinity, "over 40"]];

function meanWithInterval(scores) { // of 95%, where there are enough sentences
  const n = scores.length, mean = scores.reduce((sum, score) => sum + score, 0) / n;
  if (n < 10) return [mean];
  const half = 2 * Math.sqrt(scores.reduce((sum, score) => sum + (score - mean) ** 2, 0) / (n - 1) / n);
  return [mean, Math.max(0, mean - half), Math.min(100, mean + half)];
}
function showGroups() {
  for (const set of sets) {
    const groups = LENGTHS.map(() => []);
    set.lengths.forEach((value, line) => groups[LENGTHS.findIndex(([most]) => value <= most)].push(line));
    const found = groups.map((lines, i) => ({ lines, label: LENGTHS[i][1] })).filter(({ lines }) => lines.length);
    const series = Object.entries(set.by_run).map(([run, { chrf }]) => ({
      name: isAlone ? "chrF" : runs[run].name, run: Number(run),
      points: found.map(({ lines }, x) => [x, ...meanWithInterval(lines.map((line) => chrf[line]))]),
    }));
    const labels = found.map(({ label }) => label);
    byId("groups").append(chart({ title: "chrF by the length of the source", note: set.name, xTitle: "words", labels, series }));
  }
}

// Sentences -----------------------------------------------------------------------------------------------------------

function markDifferences(words, others, isSpaced, className) { // marks the words that a longest common subsequence leaves out
  const shown = element("span"), n = words.length, m = others.length;
  const isTooLong = n * m > 250000, lengths = Array.from({ length: isTooLong ? 0 : n + 1 }, () => new Uint16Array(m + 1));
  for (let i = n - 1; i >= 0 && !isTooLong; i--) for (let j = m - 1; j >= 0; j--)
    lengths[i][j] = words[i] === others[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
  for (let i = 0, j = 0; i < n; i++) {
    while (!isTooLong && j < m && words[i] !== others[j] && lengths[i][j + 1] >= lengths[i + 1][j]) j++;
    const isCommon = isTooLong || j < m && words[i] === others[j];
    if (isCommon) j++;
    shown.append(isCommon ? words[i] : element("mark", className, words[i]), isSpaced ? " " : "");
  }
  return shown;
}

function showSentences() {
  const [setChoice, ownChoice, otherChoice, orderChoice, search, list, more] =
    ["set", "own", "other", "order", "search", "list", "more"].map(byId);
  let set, own, other, order = [], nShown = 0;
  const offer = (select, pairs) => { // what was chosen stays, where it is offered still
    const before = select.value, option = ([value, text]) => Object.assign(element("option", "", text), { value, selected: value === before });
    select.replaceChildren(...pairs.map(option));
    select.parentElement.hidden = pairs.length < 2;
  };
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
    [own, other] = [set.by_run[ownChoice.value], set.by_run[otherChoice.value]];
    const orders = [["worst", "worst first"], ["best", "best first"], ["doubts", "doubtful first"], ["estimate", "lowest estimate first"], ["file", "as in the file"]];
    offer(orderChoice, other ? [["changed", "most changed"], ["better", "most better"], ["worse", "most worse"], ...orders] : orders);
    byId("beside-reference").hidden = Boolean(other);
    byId("beside-other").hidden = !other;
    fill();
  }
  function fill() {
    const change = (i) => other.chrf[i] - own.chrf[i], wanted = search.value.toLowerCase();
    const has = (i) => [set.sources, set.references, own.texts, other?.texts ?? []].some((texts) => texts[i]?.toLowerCase().includes(wanted));
    const key = {
      worst: (i) => own.chrf[i], best: (i) => -own.chrf[i], doubts: (i) => -(own.doubts[i]?.length ?? 0), estimate: (i) => own.estimate[i] ?? 999,
      changed: (i) => -Math.abs(change(i)), better: (i) => -change(i), worse: change, file: (i) => i,
    }[orderChoice.value];
    order = set.sources.map((_, i) => i).filter(has).sort((a, b) => key(a) - key(b) || a - b);
    list.replaceChildren();
    nShown = 0;
    showMore();
  }
  function showMore() {
    list.append(...order.slice(nShown, nShown + N_AT_ONCE).map(sentence));
    nShown = Math.min(nShown + N_AT_ONCE, order.length);
    more.hidden = nShown >= order.length;
    byId("count").textContent = whole(nShown) + " of " + whole(order.length) + " sentences are shown.";
  }
  function sentence(i) {
    const about = element("div", "about", element("span", "", "line " + whole(set.lines[i])), element("span", "", "chrF ", element("b", "", own.chrf[i].toFixed(1))));
    const add = (text, className) => about.append(element("span", className, text));
    const [out, ref, second] = [own.texts[i], set.references[i], other?.texts[i] ?? ""].map((text) => set.is_spaced ? text.split(" ") : [...text]);
    const lines = element("dl"), row = (name, content, lang = set.tgt_lang) =>
      lines.append(element("dt", "", name), Object.assign(element("dd", "", content), { lang, dir: "auto" }));
    const names = [runs[ownChoice.value].name, runs[otherChoice.value]?.name];
    if (own.estimate[i] !== null) add("estimated " + own.estimate[i].toFixed(0));
    if (other) add(names[1] + " " + other.chrf[i].toFixed(1) + " (" + (other.chrf[i] < own.chrf[i] ? "" : "+") + (other.chrf[i] - own.chrf[i]).toFixed(1) + ")");
    for (const [kind, detail] of own.doubts[i] ?? []) add(DOUBTS[kind] + ": " + detail, "doubt");
    row("source", set.sources[i], set.src_lang);
    row(other ? names[0] : "translation", markDifferences(out, other ? second : ref, set.is_spaced));
    if (other) row(names[1], markDifferences(second, out, set.is_spaced));
    row("reference", other ? set.references[i] : markDifferences(ref, out, set.is_spaced, "missing"));
    const heats = [own, other].map((of, n) => of?.attention[i] && attention(of.attention[i], other ? "attention of " + names[n] : "attention"));
    return element("article", "sentence", about, lines, ...heats.filter(Boolean));
  }
}

function attention({ src, tgt, weights }, title) { // the mean of all layers and heads
  const box = element("details", "attention", element("summary", "", title));
  const draw = () => box.append(
    element("p", "", "Each row is a piece about to be written; the stronger a square's colour, the more it attends to that piece of the source."),
    heat(tgt, src, weights.map((row) => row.map((weight) => weight / 100)), Math.max(1, ...weights.flat()) / 100));
  box.addEventListener("toggle", draw, { once: true });
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
