const data = JSON.parse(document.getElementById("data").textContent);
const SECTIONS = [["encoder", "src_pieces", "src_pieces"], ["decoder", "tgt_pieces", "tgt_inputs"], ["cross", "tgt_pieces", "src_pieces"]];

function showLayer(sentence, [name, rows, columns], heads, layer) { // the mean of the heads, and below it each head on demand
  const draw = (weights, title) => {
    const thousandths = weights.map((row, r) => name === "decoder" ? row.slice(0, r + 1) : row); // what comes later is left blank
    const map = heat(sentence[rows], sentence[columns], thousandths.map((row) => row.map((one) => one / 1000)), 1);
    return element("figure", "", element("figcaption", "", title), map);
  };
  const mean = heads[0].map((row, r) => row.map((_, c) => Math.round(heads.reduce((sum, head) => sum + head[r][c], 0) / heads.length)));
  const details = element("details", "heads", element("summary", "", "each of its " + heads.length + " heads"));
  const drawHeads = () => details.append(...heads.map((weights, head) => draw(weights, "head " + (head + 1))));
  details.addEventListener("toggle", drawHeads, { once: true });
  return element("div", "", draw(mean, "layer " + (layer + 1) + ", mean of its heads"), details);
}

document.querySelectorAll("details.sentence").forEach((details, i) => {
  const show = () => { // the maps of a sentence are drawn when someone wants to see them
    const places = details.querySelectorAll(".maps");
    if (!details.open || places[0].firstChild) return;
    SECTIONS.forEach((section, n) => places[n].append(...data[i][section[0]].map((heads, layer) => showLayer(data[i], section, heads, layer))));
  };
  details.addEventListener("toggle", show);
  show();
});
