"""Ratings from embeddings of users and movies and their cosine."""

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle.nn import Conv2D, Embedding, Linear

rng = np.random.RandomState(7)


class Model(paddle.nn.Layer):
    def __init__(self, use_poster=True):
        super().__init__()
        self.usr_emb = Embedding(num_embeddings=30, embedding_dim=16, sparse=False)
        self.usr_fc = Linear(16, 16)
        self.age_emb = Embedding(7, 8)
        self.age_fc = Linear(8, 8)
        self.usr_combined = Linear(24, 20)
        self.mov_emb = Embedding(40, 16)
        self.mov_fc = Linear(16, 16)
        self.cat_emb = Embedding(6, 8, padding_idx=0)
        self.use_poster = use_poster
        if use_poster:
            self.poster = Conv2D(in_channels=1, out_channels=2, kernel_size=3, stride=2, padding=1)
            self.mov_combined = Linear(16 + 8 + 32, 20)
        else:
            self.mov_combined = Linear(24, 20)

    def user(self, ids, ages):
        feats = paddle.concat([F.relu(self.usr_fc(self.usr_emb(ids))), F.relu(self.age_fc(self.age_emb(ages)))], axis=1)
        return F.tanh(self.usr_combined(feats))

    def movie(self, ids, categories, posters):
        emb = F.relu(self.mov_fc(self.mov_emb(ids)))
        cats = paddle.sum(self.cat_emb(categories), axis=1, keepdim=False)
        feats = [emb, F.relu(cats)]
        if self.use_poster:
            image = F.relu(self.poster(posters))
            feats.append(paddle.reshape(image, [image.shape[0], -1]))
        return F.tanh(self.mov_combined(paddle.concat(feats, axis=1)))

    def forward(self, usr, mov):
        usr_feat, mov_feat = self.user(*usr), self.movie(*mov)
        sim = F.common.cosine_similarity(usr_feat, mov_feat).reshape([-1, 1])
        return usr_feat, mov_feat, paddle.scale(sim, scale=5)


model = Model()
for p in model.parameters():
    p.set_value(rng.uniform(-0.4, 0.4, p.shape).astype("float32"))
print(len(model.parameters()), sum(int(np.prod(p.shape)) for p in model.parameters()))
opt = paddle.optimizer.Adam(learning_rate=0.01, parameters=model.parameters())
for step in range(4):
    usr = [paddle.to_tensor(rng.randint(0, 30, 16)), paddle.to_tensor(rng.randint(0, 7, 16))]
    posters = rng.rand(16, 1, 8, 8).astype("float32")
    mov = [paddle.to_tensor(rng.randint(0, 40, 16)), paddle.to_tensor(rng.randint(0, 6, (16, 3))), paddle.to_tensor(posters)]
    scores = paddle.to_tensor(rng.randint(1, 6, (16, 1)).astype("float32"))
    _, _, predicted = model(usr, mov)
    loss = F.square_error_cost(predicted, scores)
    avg_loss = paddle.mean(loss)
    avg_loss.backward()
    opt.step()
    opt.clear_grad()
    print("step: {}, loss is: {:.4f}".format(step, avg_loss.item()))
print(predicted.shape, predicted.dtype, float(predicted.abs().max()) <= 5)
