"""Masked words by a small BERT: three embeddings, pooled first position, tied decoder."""

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

rng = np.random.RandomState(13)


class BertEmbeddings(nn.Layer):
    def __init__(self, vocab_size, hidden_size, max_position, type_vocab_size=2):
        super().__init__()
        self.word_embeddings = nn.Embedding(vocab_size, hidden_size)
        self.position_embeddings = nn.Embedding(max_position, hidden_size)
        self.token_type_embeddings = nn.Embedding(type_vocab_size, hidden_size)
        self.layer_norm = nn.LayerNorm(hidden_size)
        self.dropout = nn.Dropout(0.0)

    def forward(self, input_ids, token_type_ids=None, position_ids=None):
        if position_ids is None:
            ones = paddle.ones_like(input_ids, dtype="int64")
            position_ids = paddle.cumsum(ones, axis=-1) - ones
            position_ids.stop_gradient = True
        if token_type_ids is None:
            token_type_ids = paddle.zeros_like(input_ids, dtype="int64")
        total = self.word_embeddings(input_ids) + self.position_embeddings(position_ids)
        return self.dropout(self.layer_norm(total + self.token_type_embeddings(token_type_ids)))


class Bert(nn.Layer):
    def __init__(self, vocab_size=30, hidden_size=16, layers=2, heads=2):
        super().__init__()
        self.embeddings = BertEmbeddings(vocab_size, hidden_size, 12)
        layer = nn.TransformerEncoderLayer(
            hidden_size, heads, 32, dropout=0.0, activation="gelu", attn_dropout=0.0, act_dropout=0.0
        )
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.pooler = nn.Linear(hidden_size, hidden_size)
        self.transform = nn.Linear(hidden_size, hidden_size)
        self.decoder_bias = self.create_parameter(shape=[vocab_size], is_bias=True)
        self.seq_relationship = nn.Linear(hidden_size, 2)

    def forward(self, input_ids, token_type_ids, masked_positions):
        mask = paddle.unsqueeze((input_ids == 0).astype("float32") * -1e9, axis=[1, 2])
        hidden = self.encoder(self.embeddings(input_ids, token_type_ids), mask)
        pooled = paddle.tanh(self.pooler(hidden[:, 0]))
        flat = paddle.reshape(hidden, [-1, hidden.shape[-1]])
        picked = paddle.gather(flat, masked_positions)
        picked = F.gelu(self.transform(picked))
        scores = paddle.matmul(picked, self.embeddings.word_embeddings.weight, transpose_y=True) + self.decoder_bias
        return scores, self.seq_relationship(pooled)


model = Bert()
for name, p in model.named_parameters():
    if "norm" not in name:
        p.set_value(rng.normal(0, 0.1, p.shape).astype("float32"))
print(len(list(model.named_parameters())), model.decoder_bias.name, model.decoder_bias.shape)
ids = rng.randint(3, 30, (4, 8))
ids[1, 6:] = ids[3, 5:] = 0
labels = ids.reshape(-1)[[1, 9, 18, 27]]
ids.reshape(-1)[[1, 9, 18, 27]] = 2
types = np.zeros_like(ids)
types[:, 4:] = 1
scheduler = paddle.optimizer.lr.LinearWarmup(5e-3, warmup_steps=2, start_lr=0.0, end_lr=5e-3)
opt = paddle.optimizer.AdamW(scheduler, parameters=model.parameters(), weight_decay=0.01, grad_clip=nn.ClipGradByGlobalNorm(1.0))
for step in range(4):
    scores, relation = model(paddle.to_tensor(ids), paddle.to_tensor(types), paddle.to_tensor([1, 9, 18, 27]))
    mlm = F.cross_entropy(scores, paddle.to_tensor(labels), reduction="none").mean()
    nsp = F.cross_entropy(relation, paddle.to_tensor([[0], [1], [1], [0]]))
    loss = mlm + nsp
    loss.backward()
    opt.step()
    scheduler.step()
    opt.clear_grad()
    print("global step %d, lr %.4f, mlm: %.4f, nsp: %.4f" % (step, opt.get_lr(), mlm, nsp))
