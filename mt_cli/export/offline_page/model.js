// The trained network as `model/inference.py` runs it, with 8-bit weights. Activations are arrays of rows, a row for each
// position. Products are sums of integers; all else is computed in float64, by basic operations in a fixed order: every
// engine gives the same bits.
//
// Letters in shapes: S source length, T target tokens so far, W partial hypotheses, D d_model, H heads, K head_dim,
// V value_dim or vocabulary.

/** The weights, and room for a product: where its integers `x`, their scales and its floats `out` are. WebAssembly computes it
 * where the browser has SIMD. */
class Memory {
  constructor({ n_pages: nPages, ...room }, weights, wasm) {
    this.hasWasm = Boolean(wasm && globalThis.WebAssembly?.validate(wasm));
    const memory = this.hasWasm ? new WebAssembly.Memory({ initial: nPages }) : { buffer: new ArrayBuffer(nPages * 65536) };
    if (this.hasWasm) this.product = new WebAssembly.Instance(new WebAssembly.Module(wasm), { mt: { memory } }).exports.product;
    const [int8, int16, float32, float64] = [Int8Array, Int16Array, Float32Array, Float64Array].map((type) => new type(memory.buffer));
    Object.assign(this, room, { int8, int16, float32, float64 });
    int8.set(weights);
  }

  floats = (at, n) => this.float32.subarray(at / 4, at / 4 + n);

  /** What product.wat computes. */
  product(weight, scales, bias, x, xScales, out, nRows, nColumns, nX) {
    const { int8, int16, float32, float64 } = this;
    for (let row = 0; row < nRows; row++, weight += nColumns) {
      for (let i = 0; i < nX; i++) {
        let sum = 0;
        for (let w = weight, a = (x >> 1) + i * nColumns; w < weight + nColumns; w += 8, a += 8) {
          sum = (sum + int8[w] * int16[a] + int8[w + 1] * int16[a + 1] + int8[w + 2] * int16[a + 2]
            + int8[w + 3] * int16[a + 3] + int8[w + 4] * int16[a + 4] + int8[w + 5] * int16[a + 5]
            + int8[w + 6] * int16[a + 6] + int8[w + 7] * int16[a + 7]) | 0;
        }
        float64[(out >> 3) + i * nRows + row] = sum * float64[(xScales >> 3) + i] * float32[(scales >> 2) + row] + float32[(bias >> 2) + row];
      }
    }
  }
}

/** A matrix with a scale for each of its rows, which have zeros behind them up to a multiple of 8 columns. */
class Linear {
  constructor(memory, shape) {
    Object.assign(this, { memory }, shape, { bias: shape.bias ?? memory.zeros });
  }

  /** x W^T + b for each row x: where the next product is written, if they are few. */
  apply(xs) {
    const { memory, memory: { x: at, x_scales: scales, out, float64 }, rows, padded } = this;
    if (xs.length > memory.n_rows) {
      return [xs.slice(0, memory.n_rows), xs.slice(memory.n_rows)].flatMap((some) => this.apply(some).map((y) => y.slice()));
    }
    xs.forEach((x, i) => { float64[scales / 8 + i] = this.quantize(x, at / 2 + i * padded); });
    memory.product(this.weight, this.scales, this.bias, at, scales, out, rows, padded, xs.length);
    return xs.map((_, i) => float64.subarray(out / 8 + i * rows, out / 8 + (i + 1) * rows));
  }

  /** Writes a row as integers up to `limit`, and returns what these are to be multiplied by. */
  quantize(x, at) {
    const { int16 } = this.memory;
    let largest = 0;
    for (let i = 0; i < x.length; i++) if (Math.abs(x[i]) > largest) largest = Math.abs(x[i]);
    const inverse = largest > 0 ? this.limit / largest : 0;
    for (let i = 0; i < x.length; i++) int16[at + i] = x[i] * inverse + 65536.5; // rounded down, and 65536 is 0 in 16 bits
    for (let i = x.length; i < this.padded; i++) int16[at + i] = 0;
    return largest / this.limit;
  }

  /** A row of the matrix, times `scale`. */
  row(number, scale) {
    const y = new Float64Array(this.columns);
    const ownScale = this.memory.float32[this.scales / 4 + number];
    for (let i = 0, at = this.weight + number * this.padded; i < y.length; i++) y[i] = this.memory.int8[at + i] * ownScale * scale;
    return y;
  }
}

const POWERS = Float64Array.from({ length: 2048 }, (_, i) => 2 ** (i - 1024));
const TAYLOR = [1]; // 1 / n!
for (let n = 1; n <= 9; n++) TAYLOR.push(TAYLOR[n - 1] / n);

/** e ** x to 1e-10, as 2 ** n times a Taylor series: Math.exp is not the same in all browsers. */
function exp(x) {
  if (x < -700) return 0;
  const n = Math.floor(Math.min(x, 700) * 1.4426950408889634 + 0.5);
  const rest = Math.min(x, 700) - n * 0.6931471805599453;
  let sum = TAYLOR[9];
  for (let i = 8; i >= 0; i--) sum = sum * rest + TAYLOR[i];
  return sum * POWERS[n + 1024];
}

/** The error function, to 1.5e-7 (Abramowitz and Stegun 1964, 7.1.26). */
function erf(x) {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const sum = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t;
  return Math.sign(x) * (1 - sum * exp(-x * x));
}

const ACTIVATIONS = {
  relu: (x) => (x > 0 ? x : 0),
  swish: (x) => x / (1 + exp(-x)),
  gelu: (x) => 0.5 * x * (1 + erf(x * 0.7071067811865476)),
};

/** gamma * (x - mean) / sqrt(variance + epsilon) + beta, or over deviation + epsilon. */
function layerNorm(gamma, beta, epsilon, hasVariance) {
  return (x) => {
    let mean = 0;
    let variance = 0;
    for (let i = 0; i < x.length; i++) mean += x[i];
    mean /= x.length;
    for (let i = 0; i < x.length; i++) variance += (x[i] - mean) * (x[i] - mean);
    const divisor = hasVariance ? Math.sqrt(variance / x.length + epsilon) : Math.sqrt(variance / (x.length - 1)) + epsilon;
    const y = new Float64Array(x.length);
    for (let i = 0; i < x.length; i++) y[i] = gamma[i] * ((x[i] - mean) / divisor) + beta[i];
    return y;
  };
}

/** Queries or keys (H*K), whose heads are rotated by the angles of a position: their sines and cosines, one after the other. */
function rotated(x, angles) {
  const [y, half] = [new Float64Array(x.length), angles.length / 2];
  for (let head = 0; head < x.length; head += 2 * half) {
    for (let n = 0, i = head; n < half; n++, i++) {
      y[i] = x[i] * angles[2 * n + 1] - x[i + half] * angles[2 * n];
      y[i + half] = x[i + half] * angles[2 * n + 1] + x[i] * angles[2 * n];
    }
  }
  return y;
}

/** softmax(Q K^T / temperature) V of one query (H*K) for keys S x (H*K) and values S x (H*V) -> (H*V). The weights are
 * added to `received` (S). */
function attend(query, { keys, values }, nHeads, temperature, received) {
  const [headDim, valueDim] = [query.length / nHeads, values[0].length / nHeads];
  const output = new Float64Array(values[0].length);
  const weights = new Float64Array(keys.length);
  for (let head = 0; head < nHeads; head++) {
    const [start, end] = [head * headDim, (head + 1) * headDim];
    const [first, last] = [head * valueDim, (head + 1) * valueDim];
    let [largest, total] = [-Infinity, 0];
    for (let s = 0; s < keys.length; s++) {
      const key = keys[s];
      let sum = 0;
      for (let k = start; k < end; k++) sum += query[k] * key[k];
      weights[s] = sum / temperature;
      if (weights[s] > largest) largest = weights[s];
    }
    for (let s = 0; s < keys.length; s++) total += weights[s] = exp(weights[s] - largest);
    for (let s = 0; s < keys.length; s++) {
      const value = values[s];
      const weight = weights[s] / total;
      for (let v = first; v < last; v++) output[v] += weight * value[v];
      if (received) received[s] += weight;
    }
  }
  return output;
}

/** A row cut into parts of these sizes. */
function split(row, sizes) {
  let end = 0;
  return sizes.map((size) => row.slice(end, (end += size)));
}

/** An object with what `make` makes of each of its values. */
const mapped = (object, make) => Object.fromEntries(Object.entries(object).map(([name, value]) => [name, make(value)]));

/** A trained network for a search. */
class InferenceModel {
  constructor(config, network, weights, wasm) {
    Object.assign(this, { config, memory: new Memory(config.room, weights, wasm) });
    Object.assign(this, this.built(network));
    [this.isRotary, this.isRotaryCross] = [config.positions !== "sinusoid", config.positions === "rotary_cross"];
  }

  /** The network with functions and matrices in place of where their weights are. */
  built(node) {
    const { d_model: dModel, layer_norm_epsilon: epsilon, layer_norm: kind } = this.config;
    if (node === null) return (x) => x;
    if (node.gamma !== undefined) return layerNorm(this.memory.floats(node.gamma, dModel), this.memory.floats(node.beta, dModel), epsilon, kind === "variance");
    if (node.scales !== undefined) return new Linear(this.memory, node);
    if (Array.isArray(node)) return node.map((one) => this.built(one));
    return typeof node === "object" ? mapped(node, (one) => this.built(one)) : node;
  }

  angles = (position) => this.memory.floats(this.positions.at + 4 * position * this.positions.columns, this.positions.columns);
  rotated = (x, position, isRotary = this.isRotary) => (isRotary ? rotated(x, this.angles(position)) : x);

  embed({ token, norm }, id, position) {
    const x = token.row(id, this.config.embedding_scale === "embedding" ? Math.sqrt(this.config.d_model) : 1);
    if (!this.isRotary) this.angles(position).forEach((angle, d) => { x[d] += angle; });
    return norm(x);
  }

  /** A residual branch: norm(x + f(x)), or x + f(norm(x)) with pre-norm. */
  residual({ norm }, xs, sublayer) {
    const isPre = this.config.norm === "pre";
    const ys = sublayer(isPre ? xs.map(norm) : xs);
    xs.forEach((x, i) => { for (let d = 0; d < x.length; d++) x[d] += ys[i][d]; });
    return isPre ? xs : xs.map(norm);
  }

  feedForward(own, xs) {
    const activation = ACTIVATIONS[this.config.activation];
    return this.residual(own, xs, (ys) => {
      const inner = own.w_1.apply(ys);
      for (const row of inner) for (let i = 0; i < row.length; i++) row[i] = activation(row[i]);
      return own.w_2.apply(inner);
    });
  }

  attend = (query, state, received) => attend(query, state, this.config.n_heads, this.config.attention_temperature, received);

  /** Each row attends to those of its state, to which its own key and value are added: in the encoder all rows have one. */
  selfAttention(own, xs, states, positions) {
    return this.residual(own, xs, (ys) => {
      const rows = own.w_qkv.apply(ys).map((row) => split(row, this.config.sizes));
      rows.forEach(([, key, value], i) => {
        states[i].keys.push(this.rotated(key, positions[i]));
        states[i].values.push(value);
      });
      return own.w_o.apply(rows.map(([query], i) => this.attend(this.rotated(query, positions[i]), states[i])));
    });
  }

  /** Each row attends to the source; the weights are added to `received`. */
  crossAttention(own, xs, source, position, received) {
    return this.residual(own, xs, (ys) => own.w_o.apply(own.w_q.apply(ys).map(
      (query, i) => this.attend(this.rotated(query, position, this.isRotaryCross), source, received[i]),
    )));
  }

  /** The state of one partial hypothesis of srcIds (S), before the first target token. */
  start(srcIds) {
    let xs = srcIds.map((id, position) => this.embed(this.src_embeddings, id, position));
    for (const { self_attention: attention, feed_forward: network } of this.encoder) {
      const all = { keys: [], values: [] };
      xs = this.feedForward(network, this.selfAttention(attention, xs, xs.map(() => all), [...xs.keys()]));
    }
    const memory = xs.map(this.encoder_norm);
    const source = this.decoder.map(({ cross_attention: { w_kv: linear } }) => {
      const rows = linear.apply(memory).map((row) => split(row, this.config.sizes.slice(1)));
      return { keys: rows.map(([key], position) => this.rotated(key, position, this.isRotaryCross)), values: rows.map(([, value]) => value) };
    });
    return { nSource: srcIds.length, nTokens: 0, source, rows: [source.map(() => ({ keys: [], values: [] }))] };
  }

  /** Feeds one token to each partial hypothesis, lastIds (W) -> logits (W x V) of the next, and how it attended to the
   * source, by the sum of all heads and layers, received (W x S). */
  advance(state, lastIds) {
    const received = lastIds.map(() => new Float64Array(state.nSource));
    const positions = lastIds.map(() => state.nTokens);
    let xs = lastIds.map((id) => this.embed(this.tgt_embeddings, id, state.nTokens));
    this.decoder.forEach(({ self_attention: attention, cross_attention: cross, feed_forward: network }, layer) => {
      xs = this.selfAttention(attention, xs, state.rows.map((row) => row[layer]), positions);
      xs = this.crossAttention(cross, xs, state.source[layer], state.nTokens, received);
      xs = this.feedForward(network, xs);
    });
    state.nTokens += 1;
    return { logits: this.projection.apply(xs.map(this.decoder_norm)), received };
  }
}

/** Continues with these partial hypotheses; one may come several times. */
function select(state, rows) {
  const copied = ({ keys, values }) => ({ keys: [...keys], values: [...values] });
  state.rows = rows.map((row) => state.rows[row].map(copied));
}
