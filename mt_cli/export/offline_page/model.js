// The trained network as `model/inference.py` runs it, with 8-bit weights. Activations are arrays of rows, a row for each
// position. Products are sums of integers; all else is computed in float64, by basic operations in a fixed order: every
// engine gives the same bits, and so does tests/offline_reference.py.
//
// Letters in shapes: S source length, T target tokens so far, W partial hypotheses, D d_model, H heads, K head_dim,
// V value_dim or vocabulary.

const N_ROWS_AT_ONCE = 8;

/** The weights, and room for the integers of a product. WebAssembly computes it where the browser has SIMD. */
class Memory {
  constructor(weights, widest, longest, wasm) {
    this.x = Math.ceil(weights.length / 16) * 16;
    this.out = this.x + N_ROWS_AT_ONCE * widest * 2;
    const nBytes = this.out + N_ROWS_AT_ONCE * longest * 4;
    this.hasWasm = Boolean(wasm && globalThis.WebAssembly?.validate(wasm));
    let buffer = null;
    if (this.hasWasm) {
      const memory = new WebAssembly.Memory({ initial: Math.ceil(nBytes / 65536) });
      this.product = new WebAssembly.Instance(new WebAssembly.Module(wasm), { mt: { memory } }).exports.product;
      buffer = memory.buffer;
    }
    buffer ??= new ArrayBuffer(Math.ceil(nBytes / 16) * 16);
    this.int8 = new Int8Array(buffer);
    this.int16 = new Int16Array(buffer);
    this.int32 = new Int32Array(buffer);
    this.float32 = new Float32Array(buffer);
    this.int8.set(new Int8Array(weights.buffer, weights.byteOffset, weights.length));
  }

  floats = (at, n) => this.float32.subarray(at / 4, at / 4 + n);

  /** What product.wat computes. */
  product(weight, x, out, nRows, nColumns, nX) {
    const { int8, int16, int32 } = this;
    for (let row = 0; row < nRows; row++, weight += nColumns) {
      for (let i = 0; i < nX; i++) {
        let sum = 0;
        for (let w = weight, a = (x >> 1) + i * nColumns; w < weight + nColumns; w += 8, a += 8) {
          sum = (sum + int8[w] * int16[a] + int8[w + 1] * int16[a + 1] + int8[w + 2] * int16[a + 2]
            + int8[w + 3] * int16[a + 3] + int8[w + 4] * int16[a + 4] + int8[w + 5] * int16[a + 5]
            + int8[w + 6] * int16[a + 6] + int8[w + 7] * int16[a + 7]) | 0;
        }
        int32[(out >> 2) + i * nRows + row] = sum;
      }
    }
  }
}

/** A matrix with a scale for each of its rows, which are filled up with zeros to a multiple of 8 columns. */
class Linear {
  constructor(memory, { weight, scales, bias, rows, columns }) {
    Object.assign(this, { memory, weight, rows, columns, nColumns: Math.ceil(columns / 8) * 8 });
    this.limit = Math.min(32767, Math.floor((2 ** 31 - 1) / (127 * this.nColumns))); // sums fit into 32 bits
    this.scales = memory.floats(scales, rows);
    this.bias = bias === null ? new Float32Array(rows) : memory.floats(bias, rows);
  }

  /** x W^T + b for each row x. */
  apply(xs) {
    const { memory, memory: { int32 }, rows, scales, bias } = this;
    if (xs.length > N_ROWS_AT_ONCE) return [xs.slice(0, N_ROWS_AT_ONCE), xs.slice(N_ROWS_AT_ONCE)].flatMap((some) => this.apply(some));
    const xScales = xs.map((x, i) => this.quantize(x, memory.x / 2 + i * this.nColumns));
    memory.product(this.weight, memory.x, memory.out, rows, this.nColumns, xs.length);
    return xScales.map((xScale, i) => {
      const y = new Float64Array(rows);
      for (let row = 0, at = memory.out / 4 + i * rows; row < rows; row++) y[row] = int32[at + row] * xScale * scales[row] + bias[row];
      return y;
    });
  }

  /** Writes a row as integers up to `limit`, and returns what these are to be multiplied by. */
  quantize(x, at) {
    const { int16 } = this.memory;
    let largest = 0;
    for (let i = 0; i < x.length; i++) largest = Math.max(largest, Math.abs(x[i]));
    const inverse = largest > 0 ? this.limit / largest : 0;
    for (let i = 0; i < x.length; i++) int16[at + i] = Math.floor(x[i] * inverse + 0.5);
    for (let i = x.length; i < this.nColumns; i++) int16[at + i] = 0;
    return largest / this.limit;
  }

  /** A row of the matrix, times `scale`. */
  row(number, scale) {
    const y = new Float64Array(this.columns);
    for (let i = 0, at = this.weight + number * this.nColumns; i < y.length; i++) y[i] = this.memory.int8[at + i] * this.scales[number] * scale;
    return y;
  }
}

// Functions of numbers --------------------------------------------------------------------------------------------------

const POWERS = new Float64Array(2048).fill(1); // of two: 2 ** n at n + 1024
for (let n = 1; n < 1024; n++) {
  POWERS[1024 + n] = POWERS[1023 + n] * 2;
  POWERS[1024 - n] = POWERS[1025 - n] / 2;
}
const TAYLOR = [1]; // 1 / n!
for (let n = 1; n <= 12; n++) TAYLOR.push(TAYLOR[n - 1] / n);

/** e ** x, as 2 ** n times a Taylor series: Math.exp is not the same in all browsers. */
function exp(x) {
  if (x < -700) return 0;
  const n = Math.floor(Math.min(x, 700) * 1.4426950408889634 + 0.5);
  const rest = Math.min(x, 700) - n * 0.6931471805599453;
  let sum = TAYLOR[12];
  for (let i = 11; i >= 0; i--) sum = sum * rest + TAYLOR[i];
  return sum * POWERS[n + 1024];
}

/** The natural logarithm of x >= 1. */
function log(x) {
  let n = 0;
  for (; x > 1.5; n++) x /= 2;
  const z = (x - 1) / (x + 1); // ln x = 2 (z + z^3/3 + z^5/5 + ...)
  let sum = 0;
  for (let i = 23; i > 0; i -= 2) sum = sum * z * z + 1 / i;
  return n * 0.6931471805599453 + 2 * z * sum;
}

/** The error function, to 1.5e-7 (Abramowitz and Stegun 1964, 7.1.26). */
function erf(x) {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const sum = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t;
  return Math.sign(x) * (1 - sum * exp(-x * x));
}

const ACTIVATIONS = {
  relu: (x) => Math.max(0, x),
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

/** Sines and cosines of the multiples of some angles, each by a rotation of the one before. */
class Positions {
  constructor(angles, first) {
    const zero = { sine: angles.map(() => 0), cosine: angles.map(() => 1) };
    this.next = ({ sine, cosine }) => ({
      sine: angles.map(([s, c], i) => sine[i] * c + cosine[i] * s),
      cosine: angles.map(([s, c], i) => cosine[i] * c - sine[i] * s),
    });
    this.rows = [first ? this.next(zero) : zero];
  }

  at(position) {
    while (this.rows.length <= position) this.rows.push(this.next(this.rows.at(-1)));
    return this.rows[position];
  }

  /** An embedding plus the vector of its position. */
  addTo(x, position) {
    const { sine, cosine } = this.at(position);
    return x.map((value, i) => value + (i % 2 ? cosine : sine)[i >> 1]);
  }

  /** Queries or keys (H*K), rotated by angles that grow with the position. */
  rotate(x, position) {
    const { sine, cosine } = this.at(position);
    const [y, half] = [new Float64Array(x.length), sine.length];
    for (let head = 0; head < x.length; head += 2 * half) {
      for (let n = 0, i = head; n < half; n++, i++) {
        y[i] = x[i] * cosine[n] + x[i + half] * -sine[n];
        y[i + half] = x[i + half] * cosine[n] + x[i] * sine[n];
      }
    }
    return y;
  }
}

/** softmax(Q K^T / temperature) V of one query (H*K) for keys S x (H*K) and values S x (H*V) -> (H*V). The weights, divided
 * by the number of heads, are added to `received` (S). */
function attend(query, keys, values, nHeads, temperature, received) {
  const headDim = query.length / nHeads;
  const valueDim = values[0].length / nHeads;
  const output = new Float64Array(values[0].length);
  const weights = new Float64Array(keys.length);
  for (let head = 0; head < nHeads; head++) {
    const [start, end] = [head * headDim, (head + 1) * headDim];
    let largest = -Infinity;
    for (let s = 0; s < keys.length; s++) {
      const key = keys[s];
      let sum = 0;
      for (let k = start; k < end; k++) sum += query[k] * key[k];
      weights[s] = sum / temperature;
      largest = Math.max(largest, weights[s]);
    }
    let total = 0;
    for (let s = 0; s < keys.length; s++) total += weights[s] = exp(weights[s] - largest);
    for (let s = 0; s < keys.length; s++) {
      const weight = weights[s] / total;
      const value = values[s];
      for (let v = head * valueDim; v < (head + 1) * valueDim; v++) output[v] += weight * value[v];
      if (received) received[s] += weight / nHeads;
    }
  }
  return output;
}

/** A row cut into parts of these sizes. */
function split(row, sizes) {
  let end = 0;
  return sizes.map((size) => row.subarray(end, (end += size)));
}

/** A trained network for a search. */
class InferenceModel {
  constructor(config, network, weights, wasm) {
    this.config = config;
    this.memory = new Memory(weights, network.widest, network.longest, wasm);
    Object.assign(this, this.built(network));
    this.positions = new Positions(network.angles, config.positions === "sinusoid" && config.first_position);
    const unchanged = (x) => x;
    const rotate = (x, position) => this.positions.rotate(x, position);
    this.rotateSelf = config.positions === "sinusoid" ? unchanged : rotate;
    this.rotateCross = config.positions === "rotary_cross" ? rotate : unchanged;
    this.sizes = [config.head_dim, config.head_dim, config.value_dim].map((size) => size * config.n_heads); // of Q, K, V
  }

  /** The network with functions and matrices in place of where their weights are. */
  built(node) {
    const { d_model: dModel, layer_norm_epsilon: epsilon, layer_norm: kind } = this.config;
    if (node === null) return (x) => x;
    if (node.gamma !== undefined) return layerNorm(this.memory.floats(node.gamma, dModel), this.memory.floats(node.beta, dModel), epsilon, kind === "variance");
    if (node.rows !== undefined) return new Linear(this.memory, node);
    if (Array.isArray(node)) return node.map((one) => this.built(one));
    return typeof node === "object" ? Object.fromEntries(Object.entries(node).map(([name, one]) => [name, this.built(one)])) : node;
  }

  embed({ token, norm }, id, position) {
    const x = token.row(id, this.config.embedding_scale === "embedding" ? Math.sqrt(this.config.d_model) : 1);
    return norm(this.config.positions === "sinusoid" ? this.positions.addTo(x, position) : x);
  }

  /** A residual branch: norm(x + f(x)), or x + f(norm(x)) with pre-norm. */
  residual({ norm }, xs, sublayer) {
    const isPre = this.config.norm === "pre";
    const sums = sublayer(isPre ? xs.map(norm) : xs);
    sums.forEach((y, i) => { for (let d = 0; d < y.length; d++) y[d] = xs[i][d] + y[d]; });
    return isPre ? sums : sums.map(norm);
  }

  feedForward(own, xs) {
    const activation = ACTIVATIONS[this.config.activation];
    return this.residual(own, xs, (ys) => {
      const inner = own.w_1.apply(ys);
      for (const row of inner) for (let i = 0; i < row.length; i++) row[i] = activation(row[i]);
      return own.w_2.apply(inner);
    });
  }

  attend = (query, { keys, values }, received = null) =>
    attend(query, keys, values, this.config.n_heads, this.config.attention_temperature, received);

  /** Each row attends to those of its state, to which its own key and value are added: in the encoder all rows have one. */
  selfAttention(own, xs, states, positions) {
    return this.residual(own, xs, (ys) => {
      const rows = own.w_qkv.apply(ys).map((row) => split(row, this.sizes));
      rows.forEach(([, key, value], i) => {
        states[i].keys.push(this.rotateSelf(key, positions[i]));
        states[i].values.push(value);
      });
      return own.w_o.apply(rows.map(([query], i) => this.attend(this.rotateSelf(query, positions[i]), states[i])));
    });
  }

  /** Each row attends to the source; the weights are added to `received`. */
  crossAttention(own, xs, source, position, received) {
    return this.residual(own, xs, (ys) => own.w_o.apply(own.w_q.apply(ys).map(
      (query, i) => this.attend(this.rotateCross(query, position), source, received[i]),
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
      const rows = linear.apply(memory).map((row) => split(row, this.sizes.slice(1)));
      return { keys: rows.map(([key], position) => this.rotateCross(key, position)), values: rows.map(([, value]) => value) };
    });
    return { nSource: srcIds.length, nTokens: 0, source, rows: [source.map(() => ({ keys: [], values: [] }))] };
  }

  /** Feeds one token to each partial hypothesis, lastIds (W) -> logits (W x V) of the next, and how it attended to the
   * source, by the mean of all heads and layers, received (W x S). */
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
    const scale = this.config.embedding_scale === "projection" ? 1 / Math.sqrt(this.config.d_model) : 1;
    const logits = this.projection.apply(xs.map((x) => this.decoder_norm(x).map((value) => value * scale)));
    return { logits, received: received.map((row) => row.map((weight) => weight / this.decoder.length)) };
  }
}

/** Continues with these partial hypotheses; one may come several times. */
function select(state, rows) {
  const copied = ({ keys, values }) => ({ keys: [...keys], values: [...values] });
  state.rows = rows.map((row) => state.rows[row].map(copied));
}
