// Words and trees in the browser. A tree is the list of its children, so a leaf is [].

import { svg } from "./dom.js";

/** The tree of a Dyck word; null if it is not one. */
export function treeOf(word) {
  const open = [[]];
  for (const digit of word) {
    if (digit === "1") open.push([]);
    else if (digit !== "0" || open.length === 1) return null;
    else open.at(-2).push(open.pop());
  }
  return open.length === 1 ? open[0] : null;
}

/** The Dyck word of a tree. */
export function wordOf(tree) {
  return tree.map((child) => `1${wordOf(child)}0`).join("");
}

/**
 * A small drawing of the tree of a word, in the colour of the text around it. Nodes have the class
 * of their depth, and so has the edge below each: depth-1, depth-2, …
 */
export function drawTree(word) {
  const { nodes, width, height } = layOut(treeOf(word));
  const place = ({ x, depth }) => [5 + 7 * x, 5 + 18 * (height - depth)];
  const [w, h] = [10 + 7 * width, 10 + 18 * height];
  const picture = svg("svg", {
    width: 0.7 * w, height: 0.7 * h, viewBox: `0 0 ${w} ${h}`, role: "img",
    "aria-label": `Tree of ${word || "the empty word"}`,
  });
  const lines = svg("g", { stroke: "currentColor", "stroke-width": 1.4 });
  const dots = svg("g", { fill: "currentColor" });
  for (const node of nodes) {
    const [cx, cy] = place(node);
    const depth = { class: `depth-${node.depth}` };
    dots.append(svg("circle", { cx, cy, r: 3.5, ...depth }));
    if (node.parent) {
      const [x2, y2] = place(node.parent);
      lines.append(svg("line", { x1: cx, y1: cy, x2, y2, ...depth }));
    }
  }
  picture.append(lines, dots);
  return picture;
}

/**
 * The places of all nodes: children side by side, the parent under the middle of its outermost
 * children. A node: { x, depth, parent, path }, where the path holds the index of each child on the
 * way from the root. One unit of x is half the distance between leaves.
 */
export function layOut(tree) {
  const nodes = [];
  let free = 0;
  let height = 0;
  const visit = (children, depth, parent, path) => {
    const node = { depth, parent, path };
    nodes.push(node);
    height = Math.max(height, depth);
    const placed = children.map((child, i) => visit(child, depth + 1, node, [...path, i]));
    if (placed.length) node.x = (placed[0].x + placed.at(-1).x) / 2;
    else [node.x, free] = [free, free + 2];
    return node;
  };
  visit(tree, 0, null, []);
  return { nodes, width: Math.max(0, free - 2), height };
}
