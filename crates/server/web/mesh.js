/** Derives the mesh's state from answers of `/admin/nodes`. Nothing here touches the document. */

import { EventLog } from './event_log.js';
import { ServerSamples, p99 } from './server.js';

/** Time of silence, in milliseconds, after which a server that left the answers is dropped. */
const REMEMBERED_MS = 30_000;

/** All servers, with their latest answers. */
export class Mesh {
  #servers = new Map();
  #events = new EventLog();
  #isFirst = true;

  /**
   * Handles an answer and returns a snapshot. `by`: the asked server. `mesh`: sums over the nodes
   * that answered, where an unknown rate is null. `servers`: those of `ServerSamples.snapshot`,
   * nodes first. `events`: those of `EventLog`.
   *
   * @param {number} at milliseconds since 1970
   * @param {object} answer of `/admin/nodes`
   * @returns {{at_ms: number, by: string, mesh: object, servers: object[], events: object[]}}
   */
  update(at, answer) {
    const rows = rowsOf(answer);
    for (const [id, { role }] of rows) {
      if (!this.#servers.has(id)) this.#servers.set(id, new ServerSamples(id, role));
    }
    for (const [id, server] of this.#servers) {
      const changes = server.update(at, rows.get(id) ?? null, this.#isFirst);
      for (const change of changes) this.#addEvent(at, rows, answer.asked, id, change);
      if (server.isForgotten(at, REMEMBERED_MS)) this.#servers.delete(id);
    }
    this.#isFirst = false;
    const suspectedBy = new Map();
    for (const [id, { report }] of this.#servers) {
      for (const node of report?.suspects ?? []) {
        suspectedBy.set(node, [...(suspectedBy.get(node) ?? []), id]);
      }
    }
    const servers = [...this.#servers].map(([id, server]) =>
      server.snapshot(at, { suspectedBy: suspectedBy.get(id) ?? [], viewHash: answer.view.hash }),
    );
    const order = ({ role, id }) => `${role === 'node' ? 0 : 1}${id}`;
    servers.sort((one, other) => (order(one) < order(other) ? -1 : 1));
    return {
      at_ms: at,
      by: answer.asked,
      mesh: this.#sums(),
      servers,
      events: this.#events.all(),
    };
  }

  #addEvent(at, rows, asked, id, change) {
    // A node that left is no longer a suspect, but is not trusted again.
    if (change.kind === 'trusts' && !rows.has(change.node)) return;
    const isOwnView = ['suspects', 'trusts', 'moved'].includes(change.kind) || !('node' in change);
    this.#events.add(at, isOwnView ? id : asked, change);
  }

  #sums() {
    const servers = [...this.#servers.values()];
    const nodes = servers.filter(({ isNode, report }) => isNode && report !== null);
    const sum = (of) => nodes.reduce((total, { report }) => total + of(report), 0);
    const rate = (of) => {
      const all = nodes.map((node) => node.rate(({ totals }) => of(totals)));
      const rates = all.filter((value) => value !== null);
      return rates.length > 0 ? rates.reduce((total, value) => total + value, 0) : null;
    };
    const latencies = new Map();
    for (const [bound, count] of servers.flatMap((server) => [...server.latencies()])) {
      latencies.set(bound, (latencies.get(bound) ?? 0) + count);
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

/** Returns the rows of an answer by server id. @returns {Map<string, object>} */
function rowsOf({ nodes, balancers, missing }) {
  const whyByNode = new Map(missing.map(({ node, why }) => [node, why]));
  const rows = new Map(balancers.map((row) => [row.balancer, { role: 'balancer', ...row }]));
  for (const row of nodes) rows.set(row.node, { role: 'node', why: whyByNode.get(row.node), ...row });
  return rows;
}
