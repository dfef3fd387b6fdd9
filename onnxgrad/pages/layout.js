// Layered drawings of acyclic graphs (Sugiyama, Tagawa and Toda, 1981): layers by longest paths, order by medians, and places that
// minimise the squared distance to the neighbours. One chain of bends per tensor, however many read it;
// kept libraries lay out a line for each reader, and cross more of them (decision 89 in docs/develop/decisions).

const GAP_X = 26, GAP_Y = 34;

// items: [{w, h}]; flows: [{source, targets, value}] between positions in items. Returns {w, h, at: [{x, y}], lines: [{value, points}]};
// places are centres. pinned: positions of items that stay in the first ("top") or last ("bottom") layer.
function arrange(items, flows, top, bottom) {
  const n = items.length, inner = flows.filter((flow) => flow.targets.some((t) => t !== flow.source));
  const next = items.map(() => []), before = items.map(() => 0), back = items.map(() => []);
  for (const { source, targets } of inner) for (const t of targets) { next[source].push(t); back[t].push(source); before[t]++; }
  const layer = new Array(n).fill(top.length ? 1 : 0), waiting = [...before], order = [];
  for (const i of top) layer[i] = 0;
  for (let i = 0; i < n; i++) if (!waiting[i]) order.push(i);
  for (let k = 0; k < order.length; k++) {
    for (const t of next[order[k]]) {
      layer[t] = Math.max(layer[t], layer[order[k]] + 1);
      if (!--waiting[t]) order.push(t);
    }
  }
  const first = new Set(top), last = new Set(bottom);
  // What has fewer operands than readers moves down to the first of these, so that lines become short.
  for (const i of [...order].reverse()) {
    const readers = next[i].filter((t) => !last.has(t)).map((t) => layer[t]);
    if (!first.has(i) && readers.length && back[i].length <= next[i].length) layer[i] = Math.max(layer[i], Math.min(...readers) - 1);
  }
  const deepest = Math.max(0, ...layer.filter((_, i) => !last.has(i)));
  for (const i of bottom) layer[i] = deepest + 1;
  const rows = Array.from({ length: Math.max(0, ...layer) + 1 }, () => []);
  const cells = items.map((item, i) => ({ w: item.w, h: item.h, layer: layer[i], up: [], down: [] }));
  for (const i of order) rows[layer[i]].push(cells[i]);
  const bends = inner.map(({ source, targets }) => {
    const chain = [cells[source]], end = Math.max(...targets.map((t) => layer[t]));
    for (let l = layer[source] + 1; l < end; l++) {
      const cell = { w: 4, h: 0, layer: l, up: [], down: [] };
      rows[l].push(cell);
      chain.push(cell);
      join(chain.at(-2), cell);
    }
    for (const t of targets) join(chain[layer[t] - layer[source] - 1], cells[t]);
    return chain;
  });
  number(rows);
  for (let sweep = 0; sweep < 6; sweep++) {
    const down = sweep % 2 === 0;
    for (const row of down ? rows : [...rows].reverse()) {
      for (const cell of row) cell.key = median((down ? cell.up : cell.down).map((other) => other.rank), cell.rank);
      row.sort((a, b) => a.key - b.key);
      row.forEach((cell, i) => { cell.rank = i; });
    }
  }
  for (const row of rows) {
    let x = 0;
    for (const cell of row) { cell.x = x + cell.w / 2; x += cell.w + GAP_X; }
  }
  for (let sweep = 0; sweep < 8; sweep++) {
    const down = sweep % 2 === 0;
    for (const row of down ? rows : [...rows].reverse()) settle(row, down);
  }
  const ends = [];
  let y = 0;
  for (const row of rows) {
    const tall = Math.max(0, ...row.map((cell) => cell.h));
    for (const cell of row) cell.y = y + tall / 2;
    ends.push({ above: y, below: y + tall, tall });
    y += tall + GAP_Y;
  }
  const left = Math.min(0, ...cells.map((cell) => cell.x - cell.w / 2)), right = Math.max(1, ...cells.map((cell) => cell.x + cell.w / 2));
  const spread = bends.flat().map((cell) => cell.x), low = Math.min(left, ...spread), high = Math.max(right, ...spread);
  // One line to the deepest reader, and for each other one a branch (source null) from the bend above it.
  const lines = inner.flatMap(({ source, targets, value }, k) => {
    const deepest = targets.reduce((a, b) => (layer[b] > layer[a] ? b : a));
    return targets.map((target) => {
      const depth = layer[target] - layer[source] - 1, chain = bends[k].slice(1, depth + 1), branch = target !== deepest && depth > 0;
      const points = branch ? [{ x: chain.at(-1).x, y: ends[chain.at(-1).layer].below }] : chain.flatMap((cell) => {
        const { above, below } = ends[cell.layer];
        return below - above > 1 ? [{ x: cell.x, y: above }, { x: cell.x, y: below }] : [{ x: cell.x, y: above }];
      });
      if (!branch && items[source].h < ends[layer[source]].tall) points.unshift({ x: cells[source].x, y: ends[layer[source]].below, port: source });
      if (items[target].h < ends[layer[target]].tall) points.push({ x: cells[target].x, y: ends[layer[target]].above, port: target });
      return { value, source: branch ? null : source, target, points: points.map((p) => ({ ...p, x: p.x - low })) };
    });
  });
  return { w: high - low, h: Math.max(0, y - GAP_Y), at: cells.map((cell) => ({ x: cell.x - low, y: cell.y })), lines };
}

function join(above, below) { above.down.push(below); below.up.push(above); }

function number(rows) { for (const row of rows) row.forEach((cell, i) => { cell.rank = i; }); }

function median(values, otherwise) {
  if (!values.length) return otherwise;
  values.sort((a, b) => a - b);
  const middle = values.length >> 1;
  return values.length % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// Least squares under "at least so far apart", by pooling neighbours that come too close. Operators go below operators, bends where
// there is room, so that a chain with bridges over it stays straight.
function settle(row, down) {
  const pools = [];
  let offset = 0;
  row.forEach((cell, i) => {
    if (i) offset += (row[i - 1].w + cell.w) / 2 + GAP_X * (row[i - 1].h && cell.h ? 1 : 0.6);
    cell.offset = offset;
    const all = down ? cell.up : cell.down, alike = all.filter((other) => !other.h === !cell.h), others = alike.length ? alike : all;
    const wanted = others.length ? others.reduce((sum, other) => sum + other.x, 0) / others.length : cell.x;
    let pool = { weight: !others.length ? 0.05 : cell.h ? 2 : alike.length ? 1 : 0.2, sum: 0, cells: [cell] };
    pool.sum = pool.weight * (wanted - offset);
    while (pools.length && pools.at(-1).sum / pools.at(-1).weight > pool.sum / pool.weight) {
      const before = pools.pop();
      pool = { weight: before.weight + pool.weight, sum: before.sum + pool.sum, cells: before.cells.concat(pool.cells) };
    }
    pools.push(pool);
  });
  for (const pool of pools) for (const cell of pool.cells) cell.x = pool.sum / pool.weight + cell.offset;
}
