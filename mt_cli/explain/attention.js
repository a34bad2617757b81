"use strict";
const CELL = 16; // pixels of a square, as in the style sheet
const SECTIONS = [ // in the order of the page
  { key: "encoder", rows: "src_pieces", columns: "src_pieces" },
  { key: "decoder", rows: "tgt_pieces", columns: "tgt_inputs", isCausal: true },
  { key: "cross", rows: "tgt_pieces", columns: "src_pieces" },
];
const sentences = JSON.parse(document.getElementById("data").textContent);
const valueBox = document.getElementById("value");
const redraws = [];
let ramp = readRamp();
let unmark = () => {};

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text; // text only ever enters the page here
  return made;
}

function readRamp() {
  const style = getComputedStyle(document.documentElement);
  return [0, 1, 2, 3, 4].map((i) => {
    const hex = style.getPropertyValue("--w" + i).trim();
    return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  });
}

function colour(weight) {
  const at = Math.min(Math.max(weight, 0), 0.9999) * (ramp.length - 1), i = Math.floor(at);
  return "rgb(" + ramp[i].map((c, k) => Math.round(c + (ramp[i + 1][k] - c) * (at - i))).join(",") + ")";
}

function pieceLabels(sentence, key) {
  return sentence[key].map((piece) => {
    const label = element("div", "piece"), word = piece.startsWith("\u2581") ? piece.slice(1) : piece;
    label.lang = key === "src_pieces" ? sentence.src_lang : sentence.tgt_lang;
    label.title = piece;
    if (word !== piece) label.append(element("span", "space", "\u2581"));
    label.append(element("span", "", word));
    return label;
  });
}

function isUpright(piece) { // scripts that are read from top to bottom as they are; others are turned on their side
  return /[\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]|[\ud840-\ud8bf]/.test(piece);
}

function mean(heads) {
  return heads[0].map((row, r) => row.map((_, c) => heads.reduce((sum, head) => sum + head[r][c], 0) / heads.length));
}

function showSection(sentence, section, scroll) {
  const layers = sentence[section.key], grid = element("div", "maps"), maps = [];
  scroll.append(grid);
  grid.style.gridTemplateColumns = "repeat(" + (layers[0].length + 2) + ", max-content)";
  layers.forEach((heads, l) => {
    const rowLabels = pieceLabels(sentence, section.rows), box = element("div", "rows");
    box.append(element("div", "title", "Layer " + (l + 1)), ...rowLabels);
    grid.append(box);
    [mean(heads), ...heads].forEach((weights, h) => {
      const map = makeMap(sentence, section, weights, "layer " + (l + 1), h ? "head " + h : "mean", rowLabels);
      map.place = maps.length;
      maps.push(map);
      grid.append(map.box);
    });
  });
  steerByKeys(maps, layers[0].length + 1);
}

function makeMap(sentence, section, weights, layer, head, rowLabels) {
  const box = element("div", ""), strip = element("div", "columns"), frame = element("div", "map");
  const canvas = element("canvas"), mark = element("div", "mark"), columnLabels = pieceLabels(sentence, section.columns);
  columnLabels.forEach((label) => label.classList.toggle("turned", !isUpright(label.title)));
  strip.append(...columnLabels);
  box.append(element("div", "title", head), strip, frame);
  mark.hidden = true;
  frame.append(canvas, mark);
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", section.key + ", " + layer + ", " + head);
  const isShown = (row, column) => !(section.isCausal && column > row);
  const draw = () => drawMap(canvas, weights, isShown);
  draw();
  redraws.push(draw);

  const map = { box, canvas, nRows: weights.length, nColumns: weights[0].length, row: 0, column: 0 };
  map.point = (row, column) => {
    unmark();
    if (!isShown(row, column)) column = row; // the last piece that this row may attend to
    Object.assign(map, { row, column });
    mark.hidden = false;
    mark.style.left = column * CELL - 1 + "px";
    mark.style.top = row * CELL - 1 + "px";
    const marked = [rowLabels[row], columnLabels[column]];
    marked.forEach((label) => label.classList.add("on"));
    unmark = () => {
      mark.hidden = valueBox.hidden = true;
      marked.forEach((label) => label.classList.remove("on"));
      unmark = () => {};
    };
    const pieces = sentence[section.rows][row] + " \u2190 " + sentence[section.columns][column];
    showValue(canvas, row, column, pieces, (weights[row][column] / 1000).toFixed(3), layer + ", " + head);
  };
  canvas.addEventListener("pointermove", (event) => {
    const place = canvas.getBoundingClientRect();
    const row = Math.floor((event.clientY - place.top) / CELL), column = Math.floor((event.clientX - place.left) / CELL);
    if (row >= 0 && row < map.nRows && column >= 0 && column < map.nColumns) map.point(row, column);
  });
  canvas.addEventListener("pointerleave", () => unmark());
  return map;
}

function drawMap(canvas, weights, isShown) {
  const scale = window.devicePixelRatio || 1, width = weights[0].length * CELL, height = weights.length * CELL;
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.style.width = width + "px";
  canvas.style.height = height + "px";
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  weights.forEach((row, r) => row.forEach((weight, c) => {
    if (!isShown(r, c)) return;
    pen.fillStyle = colour(weight / 1000);
    pen.fillRect(c * CELL, r * CELL, CELL - 1, CELL - 1);
  }));
}

function showValue(canvas, row, column, pieces, value, where) {
  const place = canvas.getBoundingClientRect();
  valueBox.replaceChildren(element("span", "", pieces), element("b", "", value), element("span", "where", where));
  valueBox.hidden = false;
  const left = place.left + (column + 1) * CELL + 8, top = place.top + (row + 1) * CELL + 8;
  valueBox.style.left = Math.max(4, Math.min(left, innerWidth - valueBox.offsetWidth - 8)) + "px";
  valueBox.style.top = (top + valueBox.offsetHeight > innerHeight ? top - CELL - valueBox.offsetHeight - 16 : top) + "px";
}

function steerByKeys(maps, nAcross) { // one stop of the Tab key for all maps of a section
  const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  const clamp = (value, n) => Math.min(Math.max(value, 0), n - 1);
  maps.forEach((map) => {
    map.canvas.tabIndex = map.place === 0 ? 0 : -1;
    map.canvas.addEventListener("focus", () => map.point(map.row, map.column));
    map.canvas.addEventListener("blur", () => unmark());
    map.canvas.addEventListener("keydown", (event) => {
      if (event.key === "Escape") unmark();
      const step = steps[event.key];
      if (!step) return;
      event.preventDefault();
      if (!event.shiftKey) {
        map.point(clamp(map.row + step[0], map.nRows), clamp(map.column + step[1], map.nColumns));
        return;
      }
      const next = maps[clamp(map.place + step[0] * nAcross + step[1], maps.length)];
      map.canvas.tabIndex = -1;
      Object.assign(next, { row: map.row, column: map.column });
      next.canvas.tabIndex = 0;
      next.canvas.focus();
    });
  });
}

document.querySelectorAll("details.sentence").forEach((details, i) => {
  const open = () => { // the maps of a sentence are drawn when someone wants to see them
    const places = details.querySelectorAll(".maps-of-section");
    if (details.open && !places[0].firstChild) SECTIONS.forEach((section, n) => showSection(sentences[i], section, places[n]));
  };
  details.addEventListener("toggle", open);
  open();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  ramp = readRamp();
  redraws.forEach((draw) => draw());
});
