import type { Peer } from "../model/api";
import { inOrder } from "../model/progress";

// Where peers stand on the map. A cluster is a row of its stages, left to right, each as wide as it has layers: so what lies above each
// other in two rows are the same layers, and the rings between them are upright lines. Clusters of one peer each need no rows: they
// stand side by side.

export interface Box {
  name: string;
  cluster: number;
  line: number; // of the map
  x: number;
  y: number;
  width: number;
  height: number;
  clear: number; // lines from above come down right of this, where no label is
}

export interface ClusterLabel {
  cluster: number;
  stages: number;
  x: number;
  y: number;
  height: number;
}

export interface MapLayout {
  boxes: Map<string, Box>; // by name of the peer, in reading order
  labels: ClusterLabel[];
  isCompact: boolean;
  isFlat: boolean; // clusters of one peer
  width: number;
  height: number;
}

interface Measures {
  least: number; // width of a box
  height: number;
  gap: number; // between the boxes of a cluster: room for two arrows
  below: number; // between two lines: room for rings
}

const kRoomy: Measures = { least: 148, height: 78, gap: 48, below: 34 };
const kCompact: Measures = { least: 94, height: 44, gap: 20, below: 22 };
const kMostRoomy = 24; // peers
const kMostLines = 16; // of clusters above each other, if there is room beside
const kBeside = 40; // between two clusters of a line
const kLabelWidth = 84; // of a label that stands left of its cluster
const kLabelHeight = 24; // or, on narrow screens, above it
const kWide = 700;

export function layOut(peers: Iterable<Peer>, width: number): MapLayout {
  const clusters = clustersOf(peers);
  const placed = clusters.reduce((sum, cluster) => sum + cluster.length, 0);
  const isFlat = clusters.length > 1 && clusters.every((cluster) => cluster.length === 1);
  return isFlat ? flat(clusters, placed, width) : rows(clusters, placed, width);
}

function clustersOf(peers: Iterable<Peer>): Peer[][] {
  const clusters = new Map<number, Peer[]>();
  for (const peer of inOrder(peers)) {
    if (peer.cluster === null) continue;
    const cluster = clusters.get(peer.cluster);
    if (cluster) cluster.push(peer);
    else clusters.set(peer.cluster, [peer]);
  }
  return [...clusters.values()];
}

function flat(clusters: Peer[][], placed: number, width: number): MapLayout {
  const measures = placed > kMostRoomy ? { ...kCompact, least: 136 } : kRoomy;
  const columns = evenColumns(clusters.length, Math.floor((width + measures.gap) / (measures.least + measures.gap)));
  const boxWidth = Math.max(measures.least, (width - (columns - 1) * measures.gap) / columns);
  const pitch = measures.height + measures.below;
  const boxes = new Map<string, Box>();
  clusters.forEach(([peer], index) => {
    const line = Math.floor(index / columns);
    const x = (index % columns) * (boxWidth + measures.gap);
    const box = { name: peer.name, cluster: peer.cluster!, line, x, y: line * pitch, width: boxWidth, height: measures.height, clear: x };
    boxes.set(peer.name, box);
  });
  const total = columns * (boxWidth + measures.gap) - measures.gap;
  const height = Math.ceil(clusters.length / columns) * pitch;
  return { boxes, labels: [], isCompact: measures !== kRoomy, isFlat: true, width: total, height };
}

function rows(clusters: Peer[][], placed: number, width: number): MapLayout {
  const stages = Math.max(1, ...clusters.map((cluster) => cluster.length));
  const [left, above] = width >= kWide ? [kLabelWidth, 0] : [0, kLabelHeight];
  const isCompact = placed > kMostRoomy || left + widthOf(stages, kRoomy) > width;
  const measures = isCompact ? kCompact : kRoomy;

  const fitting = Math.floor((width + kBeside) / (left + widthOf(stages, measures) + kBeside));
  const columns = evenColumns(clusters.length, Math.min(fitting, Math.ceil(clusters.length / kMostLines)));
  const lines = Math.ceil(clusters.length / columns);
  const block = Math.max(left + widthOf(stages, measures), (width - (columns - 1) * kBeside) / columns);
  const pitch = above + measures.height + measures.below;
  const layout: MapLayout = { boxes: new Map(), labels: [], isCompact, isFlat: false, width: 0, height: lines * pitch };
  layout.width = columns * (block + kBeside) - kBeside;

  clusters.forEach((cluster, index) => {
    // Down, then up again in the next column: rings lead from a cluster to the next one, and from the last to the first.
    const column = Math.floor(index / lines);
    const line = column % 2 === 0 ? index % lines : lines - 1 - (index % lines);
    const x = column * (block + kBeside);
    const y = line * pitch;
    layout.labels.push({ cluster: cluster[0].cluster!, stages: cluster.length, x, y, height: above || measures.height });
    const clear = x + (above ? kLabelWidth : 0);
    for (const box of rowOf(cluster, block - left, measures)) {
      layout.boxes.set(box.name, { ...box, line, x: x + left + box.x, y: y + above, height: measures.height, clear });
    }
  });
  return layout;
}

// Lines of the same length, where that goes.
function evenColumns(clusters: number, most: number): number {
  if (clusters === 0) return 1;
  const columns = Math.min(Math.max(1, most), clusters);
  return Math.ceil(clusters / Math.ceil(clusters / columns));
}

function widthOf(stages: number, measures: Measures): number {
  return stages * measures.least + (stages - 1) * measures.gap;
}

function rowOf(cluster: Peer[], width: number, measures: Measures) {
  const layersOf = (peer: Peer) => (peer.layers ? Math.max(1, peer.layers[1] - peer.layers[0]) : 1);
  const layers = cluster.reduce((sum, peer) => sum + layersOf(peer), 0);
  const spare = width - widthOf(cluster.length, measures);
  let x = 0;
  return cluster.map((peer) => {
    const box = { name: peer.name, cluster: peer.cluster!, x, width: measures.least + (spare * layersOf(peer)) / layers };
    x += box.width + measures.gap;
    return box;
  });
}
