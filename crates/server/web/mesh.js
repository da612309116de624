/** The whole mesh from successive answers of `/admin/nodes`. Nothing here touches the document. */

import { ServerSamples, p99 } from './server.js';
import { Stories } from './stories.js';

/** How long a server that no other names is still shown. */
const REMEMBERED_MS = 30_000;

export class Mesh {
  #servers = new Map();
  #stories = new Stories();
  #isFirst = true;

  /**
   * Takes an answer.
   * @param {number} at milliseconds since 1970
   * @param {object} answer
   * @returns {object} what the page shows
   */
  take(at, answer) {
    const rows = rowsOf(answer);
    for (const [id, { role }] of rows) {
      if (!this.#servers.has(id)) this.#servers.set(id, new ServerSamples(id, role));
    }
    for (const [id, server] of this.#servers) {
      for (const change of server.take(at, rows.get(id) ?? null, this.#isFirst)) this.#tell(at, rows, answer.asked, id, change);
      if (server.isForgotten(at, REMEMBERED_MS)) this.#servers.delete(id);
    }
    this.#isFirst = false;
    const suspectedBy = new Map();
    for (const [id, { report }] of this.#servers) {
      for (const node of report?.suspects ?? []) suspectedBy.set(node, [...(suspectedBy.get(node) ?? []), id]);
    }
    const show = ([id, server]) => server.show(at, { suspectedBy: suspectedBy.get(id) ?? [], viewHash: answer.view.hash });
    const servers = [...this.#servers].map(show);
    const order = ({ role, id }) => `${role === 'node' ? 0 : 1}${id}`;
    servers.sort((one, other) => (order(one) < order(other) ? -1 : 1));
    return { at_ms: at, by: answer.asked, mesh: this.#sums(), servers, stories: this.#stories.all() };
  }

  #tell(at, rows, asked, id, change) {
    // No server trusts a node that has left.
    if (change.what === 'trusts' && !rows.has(change.node)) return;
    const isOwnView = ['suspects', 'trusts', 'moved'].includes(change.what) || !('node' in change);
    this.#stories.add(at, isOwnView ? id : asked, change);
  }

  #sums() {
    const nodes = [...this.#servers.values()].filter(({ isNode, report }) => isNode && report !== null);
    const sum = (of) => nodes.reduce((total, { report }) => total + of(report), 0);
    const rate = (of) => {
      const rates = nodes.map((node) => node.rate(({ totals }) => of(totals))).filter((value) => value !== null);
      return rates.length > 0 ? rates.reduce((total, value) => total + value, 0) : null;
    };
    const latencies = new Map();
    for (const server of this.#servers.values()) {
      for (const [bound, count] of server.latencies()) latencies.set(bound, (latencies.get(bound) ?? 0) + count);
    }
    return {
      clients: sum(({ clients }) => clients),
      lingering: sum(({ lingering }) => lingering),
      seats: sum(({ seats }) => seats),
      waiting: sum(({ waiting }) => waiting),
      messages_per_s: rate(({ messages }) => messages),
      delivered_per_s: rate(({ delivered }) => delivered),
      unavailable_per_s: rate(({ unavailable }) => unavailable),
      p99_us: p99(latencies),
    };
  }
}

/** The servers that an answer names. @returns {Map<string, object>} */
function rowsOf({ nodes, balancers, missing }) {
  const whyByNode = new Map(missing.map(({ node, why }) => [node, why]));
  const rows = new Map(balancers.map((row) => [row.balancer, { role: 'balancer', ...row }]));
  for (const row of nodes) rows.set(row.node, { role: 'node', why: whyByNode.get(row.node), ...row });
  return rows;
}
