"""Numbers reversed by an encoder and a decoder of GRU cells with attention."""

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

rng = np.random.RandomState(40)
VOCAB, EMB, HID = 12, 10, 14


class Encoder(nn.Layer):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, EMB)
        self.gru = nn.GRU(EMB, HID, direction="forward")

    def forward(self, x):
        return self.gru(self.emb(x))


class AttentionDecoder(nn.Layer):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, EMB)
        self.attention_fc1 = nn.Linear(2 * HID, HID)
        self.attention_fc2 = nn.Linear(HID, 1)
        self.cell = nn.GRUCell(EMB + HID, HID)
        self.out = nn.Linear(HID, VOCAB)

    def forward(self, token, hidden, encoded):
        tiled = paddle.tile(hidden.unsqueeze(1), [1, encoded.shape[1], 1])
        scores = self.attention_fc2(F.tanh(self.attention_fc1(paddle.concat([tiled, encoded], axis=-1))))
        weights = F.softmax(scores, axis=1)
        context = paddle.sum(weights * encoded, axis=1)
        output, hidden = self.cell(paddle.concat([self.emb(token), context], axis=-1), hidden)
        return self.out(output), hidden, weights.squeeze(-1)


encoder, decoder = Encoder(), AttentionDecoder()
parameters = encoder.parameters() + decoder.parameters()
for p in parameters:
    p.set_value(rng.uniform(-0.3, 0.3, p.shape).astype("float32"))
opt = paddle.optimizer.Adam(learning_rate=0.01, parameters=parameters)
source = rng.randint(2, VOCAB, (8, 5))
target = source[:, ::-1].copy()
for epoch in range(3):
    encoded, hidden = encoder(paddle.to_tensor(source))
    hidden = hidden[0]
    token = paddle.ones([8], dtype="int64")
    loss = paddle.zeros([1])
    for t in range(5):
        logits, hidden, weights = decoder(token, hidden, encoded)
        step_loss = F.cross_entropy(logits, paddle.to_tensor(target[:, t]))
        loss += step_loss
        token = paddle.to_tensor(target[:, t])
    loss = loss / 5
    loss.backward()
    opt.step()
    opt.clear_grad()
    print("epoch:{}, loss:{:.4f}".format(epoch, loss.item()), weights.shape, float(weights.sum()).__round__(3))
