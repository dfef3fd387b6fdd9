// A participant of federated training in Node.js: one question on standard input, one answer on standard output.
// Usage: node federated_worker.js FOLDER [MANIFEST]; FOLDER holds step.json, step.onnx and step.bin, as save_training_step writes them.
// onnxgrad.federated.ProcessWorker asks; its docstring says how messages are written.

import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import * as ort from "onnxruntime-web";
import { readArrays, TrainingStep } from "./training_step.js";

const [folder, name = "step.json"] = process.argv.slice(2);
ort.env.wasm.numThreads = 1;

const read = async (file) => {
  const bytes = await readFile(join(folder, file));
  return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
};

/** The line of JSON and, by name, the arrays behind it. */
async function question() {
  const chunks = [];
  for await (const chunk of process.stdin) chunks.push(chunk);
  const content = Buffer.concat(chunks);
  const end = content.indexOf(10);
  const asked = JSON.parse(content.subarray(0, end).toString());
  let offset = 0;
  for (const entry of asked.arrays) {
    entry.offset = offset;
    offset += entry.bytes;
  }
  const start = content.byteOffset + end + 1;
  return { ...asked, values: readArrays(asked.arrays, content.buffer.slice(start, start + offset)) };
}

/** Numbers below 1 from a seed (mulberry32). */
function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let x = Math.imul(state ^ (state >>> 15), state | 1);
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
    return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32;
  };
}

function shuffled(count, draw) {
  const rows = Uint32Array.from({ length: count }, (_, i) => i);
  for (let i = count - 1; i > 0; i--) {
    const j = Math.floor(draw() * (i + 1));
    [rows[i], rows[j]] = [rows[j], rows[i]];
  }
  return rows;
}

/** A constant or learning rate of the step, where it has one. */
function setScalar(step, held, value) {
  const { type, dims, data } = step.state[held];
  const Typed = data.constructor;
  step.state[held] = new ort.Tensor(type, Typed.of(type === "int64" ? BigInt(value) : value), dims);
}

async function fit({ options, arrays, values }) {
  const step = await TrainingStep.load(ort, read, name);
  const { epochs = 1, batch_size: size = 32, proximal = 0, learning_rate: rate = null, sampling = "shuffle" } = options;
  const isPrivate = step.manifest.constants.some((entry) => entry.name.startsWith("noise_seed"));
  const seed = options.seed ?? (isPrivate ? randomBytes(4).readUInt32LE() : 0);
  if (sampling !== "shuffle") throw new Error(`sampling '${sampling}' is not written here`);
  const carried = arrays.filter((entry) => !entry.data);
  for (const { name: held, dtype, shape } of carried) step.state[held] = new ort.Tensor(dtype, values[held], shape);
  const constants = step.manifest.constants.map((entry) => entry.name);
  if (proximal && !constants.includes("proximal_mu")) throw new Error("this step has no proximal term; write it by federated.save_step");
  if (constants.includes("proximal_mu")) setScalar(step, "proximal_mu", proximal);
  for (const held of constants) {
    if (held.endsWith("@ANCHOR")) step.state[held] = step.state[held.slice(0, -"@ANCHOR".length)];
    if (held.startsWith("dropout_seed")) setScalar(step, held, seed);
    if (held.startsWith("noise_seed")) setScalar(step, held, options.noise_seed ?? randomBytes(8).readBigUInt64LE() >> 1n);
  }
  if (rate !== null) for (const held of step.manifest.learning_rate) setScalar(step, held, rate);

  const columns = arrays.filter((entry) => entry.data);
  const count = columns[0].shape[0];
  const draw = random(seed);
  let total = 0;
  for (let epoch = 0; epoch < epochs; epoch++) {
    const rows = shuffled(count, draw);
    for (let start = 0; start < count; start += size) {
      const chosen = rows.subarray(start, start + size);
      const feeds = {};
      for (const { name: column, dtype, shape } of columns) {
        const width = shape.slice(1).reduce((product, d) => product * d, 1);
        const batch = new values[column].constructor(chosen.length * width);
        chosen.forEach((row, i) => batch.set(values[column].subarray(row * width, (row + 1) * width), i * width));
        feeds[column] = new ort.Tensor(dtype, batch, [chosen.length, ...shape.slice(1)]);
      }
      const results = await step.run(feeds);
      const loss = Number(results[step.manifest.fetches[0].name].data[0]);
      if (Number.isFinite(loss)) total += loss * chosen.length;
      else if (!isPrivate) throw new Error(`the loss is ${loss}; lower the learning rate`);
    }
  }
  const found = carried.map(({ name: held }) => {
    const { type, dims, data } = step.state[held];
    return { entry: { name: held, dtype: type, shape: dims, bytes: data.byteLength }, data };
  });
  return { line: { loss: total / (count * epochs), arrays: found.map(({ entry }) => entry) }, found };
}

try {
  const { line, found } = await fit(await question());
  const parts = found.map(({ data }) => Buffer.from(data.buffer, data.byteOffset, data.byteLength));
  process.stdout.write(Buffer.concat([Buffer.from(JSON.stringify(line) + "\n"), ...parts]));
} catch (error) {
  process.stdout.write(JSON.stringify({ error: error.message }) + "\n");
}
