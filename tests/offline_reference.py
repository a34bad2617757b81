"""What the scripts of an exported page compute, in NumPy: the same integers, and the same operations on float64 in the same
order, so that each number is the same bit for bit."""

from typing import Any

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.float64]
LN2, TERMS = 0.6931471805599453, 9


def summed(x: Rows) -> Rows:
    """The sum over the last axis, from the first to the last."""
    return np.add.accumulate(x, -1)[..., -1]


def exp(x: Rows) -> Rows:
    x = np.clip(x, -701, 700)
    n = np.floor(x * 1.4426950408889634 + 0.5)
    rest, terms = x - n * LN2, [1.0]
    for i in range(1, TERMS + 1):
        terms.append(terms[-1] / i)
    total = np.full_like(x, terms[-1])
    for term in reversed(terms[:-1]):
        total = total * rest + term
    return np.where(x < -700, 0, np.ldexp(total, n.astype(int)))


def erf(x: Rows) -> Rows:
    t = 1 / (1 + 0.3275911 * np.abs(x))
    total = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t
    return np.sign(x) * (1 - total * exp(-x * x))


ACTIVATIONS = {
    "relu": lambda x: np.maximum(0, x),
    "swish": lambda x: x / (1 + exp(-x)),
    "gelu": lambda x: 0.5 * x * (1 + erf(x * 0.7071067811865476)),
}


class Reference:
    def __init__(self, data: dict[str, Any], weights: bytes):
        self.config, self.network, self.weights = data["config"], data["network"], weights
        at, columns = self.network["positions"]["at"], self.network["positions"]["columns"]
        n = max(one["n_positions"] for one in data["directions"])
        self.angles = self.floats(at, n * columns).reshape(n, columns)  # sine, cosine, sine, cosine, ...

    def floats(self, at: int, n: int) -> Rows:
        return np.frombuffer(self.weights, "<f4", n, at).astype(np.float64)

    def matrix(self, linear: dict[str, Any]) -> tuple[npt.NDArray[np.int64], Rows]:
        rows, columns, padded = linear["rows"], linear["columns"], linear["padded"]
        integers = np.frombuffer(self.weights, "i1", rows * padded, linear["weight"]).reshape(rows, padded)
        return integers[:, :columns].astype(np.int64), self.floats(linear["scales"], rows)

    def linear(self, x: Rows, linear: dict[str, Any]) -> Rows:
        integers, scales = self.matrix(linear)
        limit, largest = linear["limit"], np.abs(x).max(1, keepdims=True)
        inverse = np.divide(limit, largest, out=np.zeros_like(largest), where=largest > 0)
        sums = (np.floor(x * inverse + 65536.5) - 65536).astype(np.int64) @ integers.T
        assert np.abs(sums).max() < 2**31
        bias = 0.0 if linear["bias"] is None else self.floats(linear["bias"], len(scales))
        return sums * (largest / limit) * scales + bias

    def norm(self, x: Rows, norm: dict[str, int] | None) -> Rows:
        if norm is None:
            return x
        n, epsilon = x.shape[1], self.config["layer_norm_epsilon"]
        centered = x - (summed(x) / n)[:, None]
        squares = summed(centered * centered)[:, None]
        has_variance = self.config["layer_norm"] == "variance"
        divisor = np.sqrt(squares / n + epsilon) if has_variance else np.sqrt(squares / (n - 1)) + epsilon
        return self.floats(norm["gamma"], n) * (centered / divisor) + self.floats(norm["beta"], n)

    def embed(self, ids: list[int], side: dict[str, Any]) -> Rows:
        integers, scales = self.matrix(side["token"])
        x = integers[ids] * scales[ids, None]
        x = x * (np.sqrt(self.config["d_model"]) if self.config["embedding_scale"] == "embedding" else 1)
        if self.config["positions"] == "sinusoid":
            x = x + self.angles[: len(ids)]
        return self.norm(x, side["norm"])

    def rotate(self, x: Rows) -> Rows:
        """x (T,H,K)."""
        sine, cosine = self.angles[: len(x), None, ::2], self.angles[: len(x), None, 1::2]
        a, b = np.split(x, 2, 2)
        return np.concatenate([a * cosine + b * -sine, b * cosine + a * sine], 2)

    def attend(self, queries: Rows, keys: Rows, values: Rows, is_causal: bool, is_rotary: bool) -> Rows:
        heads = self.config["n_heads"]
        q, k, v = (x.reshape(len(x), heads, -1) for x in (queries, keys, values))
        if is_rotary:
            q, k = self.rotate(q), self.rotate(k)
        output = np.zeros((len(q), *v.shape[1:]))
        for i, query in enumerate(q):
            n = i + 1 if is_causal else len(k)
            scores = summed(query[:, None] * k[:n].transpose(1, 0, 2)) / self.config["attention_temperature"]  # (H,n)
            weights = exp(scores - scores.max(1, keepdims=True))
            weights = weights / summed(weights)[:, None]
            output[i] = summed((weights.T[:, :, None] * v[:n]).transpose(1, 2, 0))
        return output.reshape(len(q), -1)

    def layer(self, x: Rows, layer: dict[str, Any], memory: Rows | None = None) -> Rows:
        is_rotary, is_pre = self.config["positions"] != "sinusoid", self.config["norm"] == "pre"
        sizes = np.cumsum(self.config["sizes"][:2])

        def self_attention(y: Rows, own: dict[str, Any]) -> Rows:
            parts = np.split(self.linear(y, own["w_qkv"]), sizes, 1)
            return self.linear(self.attend(*parts, memory is not None, is_rotary), own["w_o"])

        def cross_attention(y: Rows, own: dict[str, Any]) -> Rows:
            keys, values = np.split(self.linear(memory, own["w_kv"]), sizes[:1], 1)
            is_rotary, queries = self.config["positions"] == "rotary_cross", self.linear(y, own["w_q"])
            return self.linear(self.attend(queries, keys, values, False, is_rotary), own["w_o"])

        def feed_forward(y: Rows, own: dict[str, Any]) -> Rows:
            return self.linear(ACTIVATIONS[self.config["activation"]](self.linear(y, own["w_1"])), own["w_2"])

        for sublayer in (self_attention, *([cross_attention] if memory is not None else []), feed_forward):
            own = layer[sublayer.__name__]
            y = x + sublayer(self.norm(x, own["norm"]) if is_pre else x, own)
            x = y if is_pre else self.norm(y, own["norm"])
        return x

    def logits(self, src_ids: list[int], tgt_in: list[int]) -> Rows:
        """Of the next token after each of `tgt_in`."""
        x = self.embed(src_ids, self.network["src_embeddings"])
        for layer in self.network["encoder"]:
            x = self.layer(x, layer)
        memory = self.norm(x, self.network["encoder_norm"])
        x = self.embed(tgt_in, self.network["tgt_embeddings"])
        for layer in self.network["decoder"]:
            x = self.layer(x, layer, memory)
        return self.linear(self.norm(x, self.network["decoder_norm"]), self.network["projection"])
