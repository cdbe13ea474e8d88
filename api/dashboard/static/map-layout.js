// Where everything is drawn: boxes in boxes, in whole units, of which a GPU has three by three.

export const CELL = 4;
const PAD = [1, 2, 3, 4, 5];

/** GPUs side by side in the box of a node. */
export function columnsOf(gpus) {
  if (gpus <= 4) return Math.max(1, gpus);
  return Math.ceil(gpus / (gpus > 16 ? 4 : 2));
}

/**
 * Lay out the tree of domains, or the part of it that has certain nodes.
 * A box: {depth, domain, x, y, w, h, head, children | nodes}; the root has depth -1.
 * @param aspect wanted width / height
 * @param only nodes, ascending; all by default
 */
export function layOut(data, aspect, only) {
  const wanted = only ?? Array.from({ length: data.nodeCount }, (_, i) => i);
  const nodes = { x: new Int32Array(data.nodeCount).fill(-1), y: new Int32Array(data.nodeCount), w: new Uint16Array(data.nodeCount), h: new Uint16Array(data.nodeCount) };
  for (const node of wanted) {
    const gpus = data.gpusOf(node), columns = columnsOf(gpus);
    nodes.w[node] = columns * CELL + 1;
    nodes.h[node] = Math.max(1, Math.ceil(gpus / columns)) * CELL + 1;
  }
  const root = { depth: -1, domain: 0, children: branch(data, 0, wanted, nodes) };
  pack(root, data.levels.length, aspect, nodes);
  settle(root, 0, 0, nodes);
  return { root, nodes, order: wanted, width: root.w, height: root.h };
}

function branch(data, depth, wanted, nodes) {
  if (depth === data.levels.length) return wanted.map((node) => ({ node, w: nodes.w[node], h: nodes.h[node] }));
  const { ends } = data.levels[depth], found = [];
  for (let i = 0; i < wanted.length;) {
    const domain = data.domainOf(depth, wanted[i]), end = ends[domain], first = i;
    while (i < wanted.length && wanted[i] < end) i++;
    found.push({ depth, domain, children: branch(data, depth + 1, wanted.slice(first, i), nodes) });
  }
  return found;
}

function pack(box, depths, aspect, nodes) {
  const inner = box.depth === depths - 1, alone = box.children.length === 1;
  for (const child of box.children) if (child.children) pack(child, depths, shapeOf(child, depths, alone ? aspect : 1.6), nodes);
  const fromLeaf = depths - 1 - box.depth;
  box.pad = PAD[Math.min(fromLeaf, PAD.length - 1)];
  box.head = box.depth < 0 ? 0 : inner ? 0 : fromLeaf === 1 ? 5 : 7;
  const gap = inner ? 1 : box.pad;
  // The innermost domains are columns of nodes, as racks are; others come near the wanted shape.
  const tall = inner && aspect === 0 && box.children.length <= 24;
  const columns = tall ? 1 : bestColumns(box.children, aspect || 1, gap);
  let x = 0, y = 0, rowHeight = 0, width = 0;
  box.children.forEach((child, i) => {
    if (i && i % columns === 0) {
      y += rowHeight + gap;
      x = rowHeight = 0;
    }
    child.dx = x;
    child.dy = y;
    x += child.w + gap;
    width = Math.max(width, x - gap);
    rowHeight = Math.max(rowHeight, child.h);
  });
  box.w = width + 2 * box.pad;
  box.h = y + rowHeight + 2 * box.pad + box.head;
}

/** The wanted shape of a box; 0 for the innermost, which are columns. */
const shapeOf = (box, depths, aspect) => (box.depth === depths - 1 ? 0 : aspect);

function bestColumns(children, aspect, gap) {
  if (children.length < 2) return 1;
  const w = children.reduce((sum, c) => sum + c.w + gap, 0) / children.length;
  const h = children.reduce((sum, c) => sum + c.h + gap, 0) / children.length;
  let best = 1, least = Infinity;
  for (let columns = 1; columns <= children.length; columns++) {
    const rows = Math.ceil(children.length / columns);
    // An odd rest leaves a hole in the last row; a little of that is worth a better shape.
    const hole = (rows * columns - children.length) / children.length;
    const off = Math.abs(Math.log((columns * w) / (rows * h) / aspect)) + hole;
    if (off < least) [best, least] = [columns, off];
  }
  return best;
}

function settle(box, x, y, nodes) {
  box.x = x;
  box.y = y;
  for (const child of box.children) {
    const cx = x + box.pad + child.dx, cy = y + box.pad + box.head + child.dy;
    if (child.children) settle(child, cx, cy, nodes);
    else {
      nodes.x[child.node] = cx;
      nodes.y[child.node] = cy;
    }
  }
}

/** What lies at a point: `{node}` or `{box}`, innermost; null outside. */
export function at(layout, x, y) {
  let box = layout.root;
  if (!holds(box, x, y)) return null;
  for (;;) {
    let inner = null;
    for (const child of box.children) {
      if (child.children) {
        if (holds(child, x, y)) inner = child;
      } else {
        const { node } = child, nx = layout.nodes.x[node], ny = layout.nodes.y[node];
        if (x >= nx && y >= ny && x < nx + child.w && y < ny + child.h) return { node, box };
      }
      if (inner) break;
    }
    if (!inner) return { box };
    box = inner;
  }
}

function holds(box, x, y) {
  return x >= box.x && y >= box.y && x < box.x + box.w && y < box.y + box.h;
}

/** The GPU of a node at a point, or -1. */
export function gpuAt(layout, data, node, x, y) {
  const columns = columnsOf(data.gpusOf(node));
  const column = Math.floor((x - layout.nodes.x[node]) / CELL), row = Math.floor((y - layout.nodes.y[node]) / CELL);
  const gpu = row * columns + column;
  return column >= 0 && column < columns && gpu >= 0 && gpu < data.gpusOf(node) ? gpu : -1;
}
