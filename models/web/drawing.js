// What the page draws: digits, answers, and the loss curve.

/** The first `count` held-out digits, enlarged. */
export function drawDigits(parent, digits, count) {
  for (let row = 0; row < count; row++) {
    const box = document.createElement("div");
    box.className = "digit";
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = 8;
    const pixels = new ImageData(8, 8);
    for (let i = 0; i < 64; i++) {
      const grey = 255 - Math.round(255 * digits.test_images[row * 64 + i]);
      pixels.data.set([grey, grey, grey, 255], 4 * i);
    }
    canvas.getContext("2d").putImageData(pixels, 0, 0);
    box.append(canvas, document.createElement("span"));
    parent.append(box);
  }
}

/** Under each drawn digit the network's answer, green if right. */
export function drawAnswers(answers, labels) {
  document.querySelectorAll(".digit").forEach((box, row) => {
    box.lastChild.textContent = String(answers[row]);
    box.className = `digit ${BigInt(answers[row]) === labels[row] ? "right" : "wrong"}`;
  });
}

/** The losses over the steps, on a logarithmic scale. */
export function drawCurve(canvas, losses) {
  const draw = canvas.getContext("2d");
  const [left, right, top, bottom] = [48, canvas.width - 10, 10, canvas.height - 28];
  draw.clearRect(0, 0, canvas.width, canvas.height);
  if (!losses.length) return;
  const lowest = Math.floor(Math.log10(Math.min(...losses)));
  const highest = Math.max(lowest + 1, Math.ceil(Math.log10(Math.max(...losses))));
  const x = (step) => left + ((right - left) * step) / Math.max(1, losses.length - 1);
  const y = (loss) => bottom - ((bottom - top) * (Math.log10(loss) - lowest)) / (highest - lowest);
  draw.font = "12px system-ui, sans-serif";
  draw.fillStyle = "#51606f";
  draw.strokeStyle = "#e3e8ed";
  draw.textBaseline = "middle";
  draw.textAlign = "right";
  for (let power = lowest; power <= highest; power++) {
    line(draw, [[left, y(10 ** power)], [right, y(10 ** power)]]);
    draw.fillText(String(Number((10 ** power).toPrecision(1))), left - 6, y(10 ** power));
  }
  draw.textBaseline = "top";
  draw.textAlign = "left";
  draw.fillText("step 1", left, bottom + 8);
  draw.textAlign = "right";
  draw.fillText(`step ${losses.length}`, right, bottom + 8);
  draw.strokeStyle = "#0969da";
  line(draw, losses.map((loss, step) => [x(step), y(Math.max(loss, 1e-12))]));
}

function line(draw, points) {
  draw.beginPath();
  for (const [x, y] of points) draw.lineTo(x, y);
  draw.stroke();
}
