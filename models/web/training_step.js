// A training step written by onnxgrad.save_training_step, run by onnxruntime-web: in Node.js and in a browser alike.

const TYPED = {
  float32: Float32Array, float64: Float64Array, int8: Int8Array, uint8: Uint8Array, int16: Int16Array, uint16: Uint16Array,
  int32: Int32Array, uint32: Uint32Array, int64: BigInt64Array, uint64: BigUint64Array, bool: Uint8Array,
};

/** The typed arrays that lie in a .bin file, by name; entries are those of the .json file beside it. */
export function readArrays(entries, buffer) {
  const arrays = {};
  for (const { name, dtype, offset, bytes } of entries) {
    arrays[name] = new TYPED[dtype](buffer.slice(offset, offset + bytes));
  }
  return arrays;
}

/** A model whose state (weights, optimizer, counters, learning rate) goes in and comes out of every run. */
export class TrainingStep {
  /**
   * @param ort the onnxruntime-web module
   * @param read async function from a file name to its ArrayBuffer
   * @param name of the manifest, such as "step.json"
   * @param provider "wasm" or "webgpu"; with the latter the state stays on the graphics card between steps
   */
  static async load(ort, read, name, provider = "wasm") {
    const step = new TrainingStep();
    step.ort = ort;
    step.manifest = JSON.parse(new TextDecoder().decode(await read(name)));
    const options = { executionProviders: [provider] };
    if (provider === "webgpu") {
      const floats = step.manifest.state.filter(({ dtype }) => dtype === "float32");
      options.preferredOutputLocation = Object.fromEntries(floats.map(({ output }) => [output, "gpu-buffer"]));
    }
    step.session = await ort.InferenceSession.create(new Uint8Array(await read(step.manifest.model)), options);
    const held = [...step.manifest.state, ...step.manifest.constants];
    const values = readArrays(held, await read(step.manifest.values));
    step.state = {};
    for (const { name, dtype, shape } of held) step.state[name] = new ort.Tensor(dtype, values[name], shape);
    return step;
  }

  /** Run once; returns the fetches by name. New state takes the place of the old. */
  async run(feeds) {
    const results = await this.session.run({ ...feeds, ...this.state });
    for (const { input, output } of this.manifest.state) {
      if (this.state[input].location === "gpu-buffer") this.state[input].dispose();
      this.state[input] = results[output];
    }
    return results;
  }

  /** Change the learning rate of the next steps. */
  setLearningRate(value) {
    for (const name of this.manifest.learning_rate) this.state[name] = new this.ort.Tensor("float32", [value], []);
  }

  /** Take the values that another step reached, by name: an evaluation model has the same weights. */
  takeState(other) {
    for (const name of Object.keys(this.state)) this.state[name] = other.state[name];
  }
}

/** The digits: images, labels and the order of the batches, as data.json and data.bin hold them. */
export class Digits {
  static async load(read) {
    const entries = JSON.parse(new TextDecoder().decode(await read("data.json")));
    const digits = new Digits();
    const named = Object.entries(entries).map(([name, entry]) => ({ name, ...entry }));
    Object.assign(digits, readArrays(named, await read("data.bin")));
    [digits.steps, digits.batch] = entries.order.shape;
    return digits;
  }

  /** Feeds of a training step. */
  feeds(ort, step) {
    const chosen = this.order.subarray(step * this.batch, (step + 1) * this.batch);
    const images = new Float32Array(this.batch * 64);
    const labels = new BigInt64Array(this.batch);
    chosen.forEach((index, row) => {
      images.set(this.train_images.subarray(index * 64, (index + 1) * 64), row * 64);
      labels[row] = this.train_labels[index];
    });
    return { image: imageTensor(ort, images), label: new ort.Tensor("int64", labels, [this.batch]) };
  }
}

/** Images of 8x8 as the model takes them. */
export function imageTensor(ort, images) {
  return new ort.Tensor("float32", images, [images.length / 64, 1, 8, 8]);
}

/** The most probable digit of each image. */
export function predictions(logits) {
  const found = [];
  for (let row = 0; row < logits.dims[0]; row++) {
    const scores = Array.from(logits.data.subarray(row * 10, (row + 1) * 10));
    found.push(scores.indexOf(Math.max(...scores)));
  }
  return found;
}

/** The share of held-out digits that the present weights name rightly, and what they say of each. */
export async function evaluate(ort, digits, evaluation, step) {
  evaluation.takeState(step);
  const { logits } = await evaluation.run({ image: imageTensor(ort, digits.test_images) });
  const answers = predictions(logits);
  const right = answers.filter((answer, row) => BigInt(answer) === digits.test_labels[row]).length;
  return { accuracy: right / answers.length, answers };
}
