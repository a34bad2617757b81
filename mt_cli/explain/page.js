"use strict";
const byId = (id) => document.getElementById(id);

function element(tag, className, ...content) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...content); // text enters the page here, and as text only
  return made;
}

const DOUBTS = {
  looped: "repeats itself", copied: "copies the source", length: "unusual length", unattended: "perhaps not translated",
  unseen: "characters unknown from training", numbers: "numbers differ", placeholders: "placeholders are lost",
};

function heat(rows, columns, weights, most) { // a table of squares: the larger the weight, the stronger the colour
  const header = (piece) => element("th", "", piece);
  const square = (weight, row, column) => {
    const cell = element("td");
    cell.title = rows[row] + " \u2190 " + columns[column] + ": " + weight;
    cell.style.background = "color-mix(in oklab, var(--strong) " + 100 * weight / most + "%, var(--weak))";
    return cell;
  };
  return element("div", "scroll", element("table", "heat",
    element("thead", "", element("tr", "", element("td"), ...columns.map(header))),
    element("tbody", "", ...weights.map((row, r) =>
      element("tr", "", header(rows[r]), ...row.map((weight, c) => square(weight, r, c)))))));
}

