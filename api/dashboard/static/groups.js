// Ranks to communication groups, as Megatron numbers them: two grids share the ranks.

const AXES = ["tp", "cp", "ep", "dp", "pp"];

/**
 * Of every axis above size 1: its size, how many groups, and the group and place in it of a rank.
 * @param spec the job's `parallelism`
 * @param world how many ranks the gang has at present
 */
export function groupsOf(spec, world) {
  const size = (axis) => (typeof spec[axis] === "number" ? spec[axis] : 1);
  const order = typeof spec.order === "string" ? spec.order.split("-") : AXES;
  const rest = size("tp") * size("cp") * size("pp");
  const dense = { tp: size("tp"), cp: size("cp"), ep: 1, dp: Math.max(1, Math.round(world / rest)), pp: size("pp") };
  const ep = size("ep"), etp = typeof spec.etp === "number" ? spec.etp : ep > 1 ? 1 : dense.tp;
  const expert = { tp: etp, cp: 1, ep, dp: Math.max(1, Math.round(world / (etp * ep * dense.pp))), pp: dense.pp };
  const found = {};
  for (const axis of AXES) {
    const grid = axis === "ep" ? expert : dense;
    if (grid[axis] > 1) found[axis] = one(grid, order, axis, world);
  }
  return found;
}

function one(grid, order, axis, world) {
  let stride = 1;
  for (const other of order) {
    if (other === axis) break;
    stride *= grid[other];
  }
  const size = grid[axis], block = stride * size;
  return {
    size, count: Math.max(1, Math.round(world / size)),
    groupOf: (rank) => Math.floor(rank / block) * stride + (rank % stride),
    placeOf: (rank) => Math.floor(rank / stride) % size,
  };
}
