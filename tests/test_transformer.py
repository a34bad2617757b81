"""The whole model: against torch.nn.Transformer, against two whole models of the posts, and what must hold in every
variant that a config can ask for."""

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from conftest import randomize
from torch import Tensor, nn

from mt_cli.config import ModelConfig
from mt_cli.data.batching import padding_mask, subsequent_mask
from mt_cli.data.tokenizer import PAD_ID
from mt_cli.model.dropout import Dropout
from mt_cli.model.transformer import Transformer

FLOAT32 = 1e-5
MakeModel = Callable[..., Transformer]


def logits_of(model: Transformer, *inputs: Tensor) -> Tensor:
    """Logits (B,T,V) of src_ids, src_mask, tgt_in and tgt_mask."""
    return model.project(model(*inputs))


# What the weights of torch and of the posts are called here.
NAMES = {
    r"layer_stack": "layers", r"^(..coder)\.(layers|norm)": r"\1_\2", r"pos_ffn": "feed_forward",
    r"(enc_|dec_)?self_attn|attns\.0": "self_attention", r"dec_enc_attn|multihead_attn|attns\.1": "cross_attention",
    r"W_Q|w_qs": "w_q", r"W_K|w_ks": "w_k", r"W_V|w_vs": "w_v", r"attention\.(linear|out_proj|fc)": "attention.w_o",
    r"conv(\d)": r"w_\1", r"linear(\d)": r"feed_forward.w_\1", r"(decoder.*)norm2": r"\1cross_attention.layer_norm",
    r"norm1": "self_attention.layer_norm", r"norm\d": "feed_forward.layer_norm",
    r"(attention|feed_forward)\.layer_norm": r"\1_norm.norm", r"encoder\.word_emb": "src_embeddings.token",
    r"decoder\.word_emb": "tgt_embeddings.token", r"encoder\.layer_norm": "src_embeddings.norm",
    r"decoder\.layer_norm": "tgt_embeddings.norm", r"trg_word_prj": "projection", r"norm\.weight": "norm.gamma",
    r"norm\.bias": "norm.beta",
}  # fmt: skip


def copy_weights(ours: Transformer, theirs: nn.Module) -> None:
    weights: dict[str, Tensor] = {}
    for name, weight in theirs.state_dict().items():
        for old, new in NAMES.items():
            name = re.sub(old, new, name)
        if "in_proj" in name:
            weights |= {
                name.replace("in_proj_", f"w_{x}."): part for x, part in zip("qkv", weight.chunk(3), strict=True)
            }
        elif not re.search("pos_emb|pos_table", name):  # a formula makes them
            weights[name] = weight
    if isinstance(theirs, nn.Transformer):  # which has none of these
        weights |= {name: one for name, one in ours.state_dict().items() if re.search("embeddings|projection", name)}
    ours.load_state_dict(weights)


def torch_transformer(norm: str) -> tuple[nn.TransformerEncoder, nn.TransformerDecoder]:
    """As `nn.Transformer` builds them. With post-norm it normalizes once more at the end, which the paper does not."""
    options: dict[str, Any] = {"dropout": 0.0, "batch_first": True, "norm_first": norm == "pre"}
    final = (nn.LayerNorm(16), nn.LayerNorm(16)) if norm == "pre" else (None, None)
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 24, **options), 2, final[0], False)
    return encoder, nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 2, 24, **options), 2, final[1])


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_whole_model_equals_torch_transformer_with_the_same_weights(norm, make_model, batch):
    ours = make_model(norm=norm, tie_embeddings="none")
    encoder, decoder = torch_transformer(norm)
    theirs = nn.Transformer(16, 2, custom_encoder=encoder, custom_decoder=decoder, batch_first=True).eval()
    randomize(theirs)
    copy_weights(ours, theirs)
    is_src_padding = batch.src_ids == PAD_ID
    hidden = theirs(
        ours.src_embeddings(batch.src_ids),
        ours.tgt_embeddings(batch.tgt_in),
        tgt_mask=~subsequent_mask(batch.tgt_in.size(1))[0, 0],
        src_key_padding_mask=is_src_padding,
        tgt_key_padding_mask=batch.tgt_in == PAD_ID,
        memory_key_padding_mask=is_src_padding,
    )
    torch.testing.assert_close(logits_of(ours, *batch), hidden @ ours.projection.weight.T, rtol=0, atol=FLOAT32)


class Post001:
    """The classes of post 001, as they stand there; what the post takes from the book around it is filled in."""

    d_embedding, d_k, d_v, n_heads, d_ff, n_layers = 16, 5, 3, 2, 24, 2

    @staticmethod
    def get_sin_enc_table(n_position: int, embedding_dim: int) -> Tensor:
        table = np.zeros((n_position, embedding_dim))
        for pos_i in range(n_position):
            for hid_j in range(embedding_dim):
                table[pos_i, hid_j] = pos_i / np.power(10000, 2 * (hid_j // 2) / embedding_dim)
        table[:, 0::2] = np.sin(table[:, 0::2])
        table[:, 1::2] = np.cos(table[:, 1::2])
        return torch.FloatTensor(table)

    @staticmethod
    def get_attn_pad_mask(seq_q: Tensor, seq_k: Tensor) -> Tensor:
        return seq_k.data.eq(0).unsqueeze(1).expand(seq_q.size(0), seq_q.size(1), seq_k.size(1))

    @staticmethod
    def get_attn_subsequent_mask(seq: Tensor) -> Tensor:
        return torch.from_numpy(np.triu(np.ones([seq.size(0), seq.size(1), seq.size(1)]), k=1)).byte()

    class MultiHeadAttention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            p = Post001
            self.W_Q = nn.Linear(p.d_embedding, p.d_k * p.n_heads)
            self.W_K = nn.Linear(p.d_embedding, p.d_k * p.n_heads)
            self.W_V = nn.Linear(p.d_embedding, p.d_v * p.n_heads)
            self.linear = nn.Linear(p.n_heads * p.d_v, p.d_embedding)
            self.layer_norm = nn.LayerNorm(p.d_embedding)

        def forward(self, Q: Tensor, K: Tensor, V: Tensor, attn_mask: Tensor) -> tuple[Tensor, Tensor]:
            n_heads, d_k, d_v = Post001.n_heads, Post001.d_k, Post001.d_v
            residual, batch_size = Q, Q.size(0)
            q_s = self.W_Q(Q).view(batch_size, -1, n_heads, d_k).transpose(1, 2)
            k_s = self.W_K(K).view(batch_size, -1, n_heads, d_k).transpose(1, 2)
            v_s = self.W_V(V).view(batch_size, -1, n_heads, d_v).transpose(1, 2)
            scores = torch.matmul(q_s, k_s.transpose(-1, -2)) / np.sqrt(d_k)
            attn_mask = attn_mask.unsqueeze(1).repeat(1, n_heads, 1, 1)
            scores.masked_fill_(attn_mask, -1e9)
            weights = nn.Softmax(dim=-1)(scores)
            context = torch.matmul(weights, v_s)
            context = context.transpose(1, 2).contiguous().view(batch_size, -1, n_heads * d_v)
            output = self.linear(context)
            return self.layer_norm(output + residual), weights

    class PoswiseFeedForwardNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv1 = nn.Conv1d(Post001.d_embedding, Post001.d_ff, kernel_size=1)
            self.conv2 = nn.Conv1d(Post001.d_ff, Post001.d_embedding, kernel_size=1)
            self.layer_norm = nn.LayerNorm(Post001.d_embedding)

        def forward(self, inputs: Tensor) -> Tensor:
            residual = inputs
            output = nn.ReLU()(self.conv1(inputs.transpose(1, 2)))
            output = self.conv2(output)
            return self.layer_norm(output.transpose(1, 2) + residual)

    class EncoderLayer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enc_self_attn = Post001.MultiHeadAttention()
            self.pos_ffn = Post001.PoswiseFeedForwardNet()

        def forward(self, enc_inputs: Tensor, enc_self_attn_mask: Tensor) -> tuple[Tensor, Tensor]:
            enc_outputs, weights = self.enc_self_attn(enc_inputs, enc_inputs, enc_inputs, enc_self_attn_mask)
            return self.pos_ffn(enc_outputs), weights

    class DecoderLayer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.dec_self_attn = Post001.MultiHeadAttention()
            self.dec_enc_attn = Post001.MultiHeadAttention()
            self.pos_ffn = Post001.PoswiseFeedForwardNet()

        def forward(self, dec_inputs, enc_outputs, dec_self_attn_mask, dec_enc_attn_mask) -> tuple:
            dec_outputs, own = self.dec_self_attn(dec_inputs, dec_inputs, dec_inputs, dec_self_attn_mask)
            dec_outputs, cross = self.dec_enc_attn(dec_outputs, enc_outputs, enc_outputs, dec_enc_attn_mask)
            return self.pos_ffn(dec_outputs), own, cross

    class Coder(nn.Module):
        """Encoder and decoder: the post writes them apart, with the same embeddings and the same loop."""

        def __init__(self, n_vocab: int, length: int, layer: type[nn.Module]) -> None:
            super().__init__()
            p = Post001
            self.word_emb = nn.Embedding(n_vocab, p.d_embedding)
            table = p.get_sin_enc_table(length + 1, p.d_embedding)
            self.pos_emb = nn.Embedding.from_pretrained(table, freeze=True)
            self.layers = nn.ModuleList([layer() for _ in range(p.n_layers)])

        def forward(self, inputs: Tensor, *others: Tensor) -> tuple:
            pos_indices = torch.arange(1, inputs.size(1) + 1).unsqueeze(0).to(inputs)
            outputs, all_weights = self.word_emb(inputs) + self.pos_emb(pos_indices), []
            for layer in self.layers:
                outputs, *weights = layer(outputs, *others)
                all_weights.append(weights)
            return outputs, *zip(*all_weights, strict=True)

    class Transformer(nn.Module):
        def __init__(self, n_src_vocab: int, n_tgt_vocab: int, src_len: int, tgt_len: int) -> None:
            super().__init__()
            self.encoder = Post001.Coder(n_src_vocab, src_len, Post001.EncoderLayer)
            self.decoder = Post001.Coder(n_tgt_vocab, tgt_len, Post001.DecoderLayer)
            self.projection = nn.Linear(Post001.d_embedding, n_tgt_vocab, bias=False)

        def forward(self, enc_inputs: Tensor, dec_inputs: Tensor) -> tuple:
            pad_mask, subsequent = Post001.get_attn_pad_mask, Post001.get_attn_subsequent_mask(dec_inputs)
            enc_outputs, enc_weights = self.encoder(enc_inputs, pad_mask(enc_inputs, enc_inputs))
            dec_self_attn_mask = torch.gt((pad_mask(dec_inputs, dec_inputs) + subsequent), 0)
            masks = dec_self_attn_mask, pad_mask(dec_inputs, enc_inputs)
            dec_outputs, own_weights, cross_weights = self.decoder(dec_inputs, enc_outputs, *masks)
            return self.projection(dec_outputs), enc_weights, own_weights, cross_weights


SWITCHES_001: dict[str, Any] = {
    "head_dim": 5, "value_dim": 3, "dropout": 0.0, "norm": "post", "feed_forward": "conv1d", "tie_embeddings": "none",
    "embedding_scale": "none", "first_position": 1,
}  # fmt: skip


def test_the_switches_of_post_001_give_the_logits_and_all_attention_weights_of_its_model(make_model, batch):
    theirs = Post001.Transformer(13, 11, src_len=8, tgt_len=8)
    randomize(theirs)
    ours = make_model(**SWITCHES_001)
    copy_weights(ours, theirs)
    hidden, weights = ours.forward_with_weights(*batch)
    logits = ours.project(hidden)
    expected_logits, *expected_weights = theirs(batch.src_ids, batch.tgt_in)
    # The post embeds padding like a word, so what stands at padding differs; no token of a sentence can see it.
    is_token = batch.tgt_in != PAD_ID
    torch.testing.assert_close(logits[is_token], expected_logits[is_token], rtol=0, atol=FLOAT32)
    of_queries = [batch.src_ids != PAD_ID, is_token, is_token]
    for found, expected, is_query in zip(weights, expected_weights, of_queries, strict=True):
        assert len(found) == len(expected) == 2
        for layer, their_layer in zip(found, expected, strict=True):
            rows, their_rows = layer.transpose(1, 2)[is_query], their_layer.transpose(1, 2)[is_query]
            torch.testing.assert_close(rows, their_rows, rtol=0, atol=FLOAT32)


class Post003:
    """The classes of post 003 (jadore801120). The decoder's `__init__`, which the post leaves out, mirrors the
    encoder's. `dropout` stands for `nn.Dropout`, so that both models can draw the same bits."""

    dropout: Callable[[float], nn.Module] = Dropout

    class ScaledDotProductAttention(nn.Module):
        def __init__(self, temperature: float, attn_dropout: float) -> None:
            super().__init__()
            self.temperature = temperature
            self.dropout = Post003.dropout(attn_dropout)

        def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
            attn = torch.matmul(q / self.temperature, k.transpose(2, 3))
            if mask is not None:
                attn = attn.masked_fill(mask == 0, -1e9)
            attn = self.dropout(F.softmax(attn, dim=-1))
            return torch.matmul(attn, v), attn

    class MultiHeadAttention(nn.Module):
        def __init__(self, n_head: int, d_model: int, d_k: int, d_v: int, dropout: float) -> None:
            super().__init__()
            self.n_head, self.d_k, self.d_v = n_head, d_k, d_v
            self.w_qs = nn.Linear(d_model, n_head * d_k, bias=False)
            self.w_ks = nn.Linear(d_model, n_head * d_k, bias=False)
            self.w_vs = nn.Linear(d_model, n_head * d_v, bias=False)
            self.fc = nn.Linear(n_head * d_v, d_model, bias=False)
            self.attention = Post003.ScaledDotProductAttention(d_k**0.5, dropout)
            self.dropout = Post003.dropout(dropout)
            self.layer_norm = nn.LayerNorm(d_model, eps=1e-6)

        def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
            sz_b, len_q, len_k, len_v = q.size(0), q.size(1), k.size(1), v.size(1)
            residual = q
            q = self.w_qs(q).view(sz_b, len_q, self.n_head, self.d_k).transpose(1, 2)
            k = self.w_ks(k).view(sz_b, len_k, self.n_head, self.d_k).transpose(1, 2)
            v = self.w_vs(v).view(sz_b, len_v, self.n_head, self.d_v).transpose(1, 2)
            if mask is not None:
                mask = mask.unsqueeze(1)
            q, attn = self.attention(q, k, v, mask=mask)
            q = q.transpose(1, 2).contiguous().view(sz_b, len_q, -1)
            q = self.dropout(self.fc(q))
            q = q + residual
            return self.layer_norm(q), attn

    class PositionwiseFeedForward(nn.Module):
        def __init__(self, d_in: int, d_hid: int, dropout: float) -> None:
            super().__init__()
            self.w_1, self.w_2 = nn.Linear(d_in, d_hid), nn.Linear(d_hid, d_in)
            self.layer_norm = nn.LayerNorm(d_in, eps=1e-6)
            self.dropout = Post003.dropout(dropout)

        def forward(self, x: Tensor) -> Tensor:
            residual = x
            x = self.dropout(self.w_2(F.relu(self.w_1(x))))
            return self.layer_norm(x + residual)

    class PositionalEncoding(nn.Module):
        def __init__(self, d_hid: int, n_position: int = 200) -> None:
            super().__init__()
            self.register_buffer("pos_table", Post001.get_sin_enc_table(n_position, d_hid).unsqueeze(0))

        def forward(self, x: Tensor) -> Tensor:
            return x + self.pos_table[:, : x.size(1)].clone().detach()

    class Coder(nn.Module):
        """Encoder and decoder: the post writes them apart, with the same five lines of embedding."""

        def __init__(self, n_vocab: int, d_model: int, pad_idx: int, dropout: float, scale_emb: bool) -> None:
            super().__init__()
            self.word_emb = nn.Embedding(n_vocab, d_model, padding_idx=pad_idx)
            self.position_enc = Post003.PositionalEncoding(d_model)
            self.dropout = Post003.dropout(dropout)
            self.layer_norm = nn.LayerNorm(d_model, eps=1e-6)
            self.scale_emb, self.d_model = scale_emb, d_model

        def embed(self, seq: Tensor) -> Tensor:
            output = self.word_emb(seq)
            if self.scale_emb:
                output = output * self.d_model**0.5
            return self.layer_norm(self.dropout(self.position_enc(output)))

    class Layer(nn.Module):
        def __init__(self, n_attentions: int, n_head: int, d_model: int, d_inner: int, dropout: float) -> None:
            super().__init__()
            d_k = d_v = d_model // n_head
            self.attns = nn.ModuleList(
                Post003.MultiHeadAttention(n_head, d_model, d_k, d_v, dropout) for _ in range(n_attentions)
            )
            self.pos_ffn = Post003.PositionwiseFeedForward(d_model, d_inner, dropout)

    class Transformer(nn.Module):
        def __init__(
            self,
            n_src_vocab: int,
            n_trg_vocab: int,
            pad_idx: int,
            d_model: int,
            d_inner: int,
            n_layers: int,
            n_head: int,
            dropout: float,
            trg_emb_prj_weight_sharing: bool,
            emb_src_trg_weight_sharing: bool,
            scale_emb_or_prj: str,
        ) -> None:
            super().__init__()
            scale_emb = (scale_emb_or_prj == "emb") if trg_emb_prj_weight_sharing else False
            self.scale_prj = (scale_emb_or_prj == "prj") if trg_emb_prj_weight_sharing else False
            self.pad_idx, self.d_model = pad_idx, d_model
            self.encoder = Post003.Coder(n_src_vocab, d_model, pad_idx, dropout, scale_emb)
            self.encoder.layer_stack = nn.ModuleList(
                Post003.Layer(1, n_head, d_model, d_inner, dropout) for _ in range(n_layers)
            )
            self.decoder = Post003.Coder(n_trg_vocab, d_model, pad_idx, dropout, scale_emb)
            self.decoder.layer_stack = nn.ModuleList(
                Post003.Layer(2, n_head, d_model, d_inner, dropout) for _ in range(n_layers)
            )
            self.trg_word_prj = nn.Linear(d_model, n_trg_vocab, bias=False)
            for p in self.parameters():
                if p.dim() > 1:
                    nn.init.xavier_uniform_(p)
            if trg_emb_prj_weight_sharing:
                self.trg_word_prj.weight = self.decoder.word_emb.weight
            if emb_src_trg_weight_sharing:
                self.encoder.word_emb.weight = self.decoder.word_emb.weight

        def forward(self, src_seq: Tensor, trg_seq: Tensor) -> Tensor:
            src_mask = (src_seq != self.pad_idx).unsqueeze(-2)
            len_s = trg_seq.size(1)
            subsequent = (1 - torch.triu(torch.ones((1, len_s, len_s)), diagonal=1)).bool()
            trg_mask = (trg_seq != self.pad_idx).unsqueeze(-2) & subsequent
            enc_output = self.encoder.embed(src_seq)
            for layer in self.encoder.layer_stack:
                enc_output, _ = layer.attns[0](enc_output, enc_output, enc_output, mask=src_mask)
                enc_output = layer.pos_ffn(enc_output)
            dec_output = self.decoder.embed(trg_seq)
            for layer in self.decoder.layer_stack:
                dec_output, _ = layer.attns[0](dec_output, dec_output, dec_output, mask=trg_mask)
                dec_output, _ = layer.attns[1](dec_output, enc_output, enc_output, mask=src_mask)
                dec_output = layer.pos_ffn(dec_output)
            seq_logit = self.trg_word_prj(dec_output)
            if self.scale_prj:
                seq_logit = seq_logit * self.d_model**-0.5
            return seq_logit.view(-1, seq_logit.size(2))


SWITCHES_003: dict[str, Any] = {
    "norm": "post", "layer_norm_epsilon": 1e-6, "attention_bias": False, "embedding_norm": True, "ffn_dropout": 0.0,
}  # fmt: skip
SHARING = {"all": (True, True), "target": (True, False), "none": (False, False)}
SCALES = {"embedding": "emb", "projection": "prj", "none": "none"}


def both_003(make_model: MakeModel, tie: str, scale: str, dropout: float) -> tuple[Transformer, Post003.Transformer]:
    torch.manual_seed(5)
    n_src_vocab = 11 if tie == "all" else 13
    theirs = Post003.Transformer(n_src_vocab, 11, PAD_ID, 16, 24, 2, 2, dropout, *SHARING[tie], SCALES[scale]).eval()
    for norm in (module for module in theirs.modules() if isinstance(module, nn.LayerNorm)):
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
    ours = make_model(
        **SWITCHES_003, tie_embeddings=tie, embedding_scale=scale, dropout=dropout, attention_dropout=None
    )
    copy_weights(ours, theirs)
    return ours, theirs


@pytest.mark.parametrize(
    ("tie", "scale"),
    # Where nothing is tied, the post scales nothing, whatever `scale_emb_or_prj` says.
    [*((tie, scale) for tie in ("all", "target") for scale in SCALES), ("none", "none")],
)
def test_the_switches_of_post_003_give_the_logits_of_its_model(tie, scale, make_model, batch):
    ours, theirs = both_003(make_model, tie, scale, dropout=0.1)
    expected = theirs(batch.src_ids, batch.tgt_in).view(*batch.tgt_in.shape, -1)
    is_token = batch.tgt_in != PAD_ID  # the post counts positions on through padding, which no token can see
    torch.testing.assert_close(logits_of(ours, *batch)[is_token], expected[is_token], rtol=0, atol=FLOAT32)


def test_while_training_every_dropout_of_post_003_stands_in_its_place(make_model, batch_of):
    ours, theirs = both_003(make_model, "all", "projection", dropout=0.3)
    batch = batch_of([([4, 5, 6, 7], [8, 9, 5]), ([10, 4, 7, 9], [5, 6, 7])])
    torch.manual_seed(1)
    expected = theirs.train()(batch.src_ids, batch.tgt_in).view(*batch.tgt_in.shape, -1)
    torch.manual_seed(1)
    torch.testing.assert_close(logits_of(ours.train(), *batch), expected, rtol=0, atol=FLOAT32)


def test_tied_embeddings_are_one_parameter(make_model):
    for tie, is_target_shared, is_source_shared in (("none", 0, 0), ("target", 1, 0), ("all", 1, 1)):
        model = make_model(tie_embeddings=tie)
        source, target = model.src_embeddings.token.weight, model.tgt_embeddings.token.weight
        assert (model.projection.weight is target) == is_target_shared
        assert (source is target) == is_source_shared
        n_matrices = sum(p.dim() == 2 and p.size(0) in (11, 13) for p in model.parameters())
        assert n_matrices == 3 - is_target_shared - is_source_shared


def test_every_matrix_begins_within_the_bounds_of_xavier_and_fills_them(switches):
    sizes = {"d_model": 64, "ffn_dim": 96, "n_encoder_layers": 1, "n_decoder_layers": 1}
    config = ModelConfig(**{**sizes, "embedding_init": "xavier", **switches})
    model = Transformer(config, 300, 300, PAD_ID)
    matrices = {name: parameter for name, parameter in model.named_parameters() if parameter.dim() > 1}
    for name, matrix in matrices.items():
        bound = math.sqrt(6 / (matrix.size(0) + matrix.size(1)))
        assert matrix.abs().max() <= bound, name
        assert matrix.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.1), name
    assert len(matrices) >= 4 + 8 + 4 + 1  # of three attentions, two feed-forwards, an embedding


def test_the_weights_of_every_layer_are_returned_and_change_no_logit(switches, make_model, batch):
    model = make_model(**switches)
    hidden, weights = model.forward_with_weights(*batch)
    torch.testing.assert_close(model.project(hidden), logits_of(model, *batch), rtol=0, atol=FLOAT32)
    n, n_src, n_tgt = len(batch.src_ids), batch.src_ids.size(1), batch.tgt_in.size(1)
    shapes = (n, 2, n_src, n_src), (n, 2, n_tgt, n_tgt), (n, 2, n_tgt, n_src)
    masks = batch.src_mask, batch.tgt_mask, batch.src_mask
    for found, shape, mask in zip(weights, shapes, masks, strict=True):
        assert len(found) == 2
        for layer in found:
            assert layer.shape == shape and layer.masked_select(~mask).eq(0).all()
            torch.testing.assert_close(layer.sum(-1), torch.ones(shape[:3]))


def test_gradients_reach_every_parameter(switches, make_model, batch_of):
    model, ids = make_model(**switches).train(), list(range(4, 11))
    batch = batch_of([(ids[i:] + ids[:i], ids[:i] + ids[i:][::-1]) for i in range(5)])
    logits = logits_of(model, *batch)
    F.cross_entropy(logits.flatten(0, 1), batch.tgt_in.roll(-1, dims=1).flatten()).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name
        # That bias adds the same to all scores of a query, which softmax does not see.
        assert parameter.grad.any() or name.endswith("w_k.bias"), name


def test_a_row_of_nothing_but_padding_gives_no_nan_and_disturbs_no_other(switches, make_model, batch):
    model, found = make_model(**switches), []
    for n_rows in (2, 3):
        src_ids, tgt_in = batch.src_ids[:n_rows].clone(), batch.tgt_in[:n_rows].clone()
        src_ids[2:], tgt_in[2:] = PAD_ID, PAD_ID
        tgt_mask = padding_mask(tgt_in) & subsequent_mask(tgt_in.size(1))
        hidden, weights = model.forward_with_weights(src_ids, padding_mask(src_ids), tgt_in, tgt_mask)
        logits = model.project(hidden)
        assert logits.isfinite().all()
        assert not any(layer[2:].any() for of_layers in weights for layer in of_layers)
        loss = (logits * (tgt_in != PAD_ID)[..., None]).square().sum()
        found.append([loss, *torch.autograd.grad(loss, list(model.parameters()))])
    for without, with_empty_row in zip(*found, strict=True):
        torch.testing.assert_close(with_empty_row, without, rtol=1e-4, atol=1e-4)


def test_bf16_is_close_to_float32(switches, make_model, batch):
    expected, found = logits_of(make_model(**switches), *batch), logits_of(make_model(**switches).bfloat16(), *batch)
    # bf16 keeps 8 bits: a relative error of 2^-8 at each of the dozen roundings on the way, some of which cancel.
    assert 0 < (found.float() - expected).norm() / expected.norm() < 12 * 2**-8 and found.dtype == torch.bfloat16
