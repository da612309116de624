/** Samples of one server: its state, its rates, and what changed between two samples. Nothing here touches the document. */

/** Age of the samples that a p99 comes from. */
const SPAN_MS = 10_000;
/** One late answer is no news. */
const MISSES = 2;

/** One server. */
export class ServerSamples {
  #id;
  #role;
  /** Its row in the latest answer of the asked server; `null` when that does not name it. */
  #row = null;
  /** Samples of its present process, oldest first: those of the span, and one before. */
  #samples = [];
  /** Messages from its trunks, in the latest two answers of the asked server. */
  #trunks = [];
  #silentSince = null;
  #why = '';
  #misses = 0;
  #isSilenceTold = false;
  #isDraining = false;
  #otherViewSince = null;

  /** @param {string} id @param {string} role `node` or `balancer` */
  constructor(id, role) {
    [this.#id, this.#role] = [id, role];
  }

  /** Its latest report, if it answered the latest request. @returns {object | null} */
  get report() {
    return this.#silentSince === null ? this.#samples.at(-1)?.server ?? null : null;
  }

  get isNode() {
    return this.#role === 'node';
  }

  /** @param {number} at */
  isForgotten(at, afterMs) {
    return this.#row === null && at - this.#silentSince >= afterMs;
  }

  /**
   * Takes the row of an answer.
   * @param {number} at milliseconds
   * @param {object | null} row
   * @param {boolean} isFirst whether it is the first answer at all
   * @returns {object[]} what has changed
   */
  take(at, row, isFirst) {
    const [before, latest] = [this.#row, this.#samples.at(-1)];
    this.#row = row;
    const changes = [];
    if (row?.server) changes.push(...this.#answered(at, row.server, latest));
    else changes.push(...this.#missed(at, row?.why ?? 'no answer', latest));
    if (row === null) {
      if (before !== null && !(this.#isDraining && this.#isSilenceTold)) changes.push({ what: this.#isDraining ? 'stopped' : 'left', node: this.#id });
      this.#isSilenceTold = false;
      return changes;
    }
    this.#trunks = [...this.#trunks.slice(-1), { at, count: row.messages ?? 0 }];
    const isDraining = row.draining ?? (row.server ? row.server.obstacle === 'draining' : this.#isDraining);
    if (before === null && !isFirst) changes.push({ what: 'joined', node: this.#id });
    if (isDraining !== this.#isDraining && !isFirst) changes.push({ what: isDraining ? 'drains' : 'serves', node: this.#id });
    this.#isDraining = isDraining;
    return changes;
  }

  #answered(at, server, latest) {
    const isRestarted = latest !== undefined && latest.server.started_ms !== server.started_ms;
    if (isRestarted) this.#samples = [];
    this.#samples.push({ at, server });
    while (this.#samples.length > 1 && at - this.#samples[1].at >= SPAN_MS) this.#samples.shift();
    const changes = latest ? differences(latest.server, server, isRestarted) : [];
    if (isRestarted) changes.unshift({ what: 'restarted', node: this.#id });
    else if (this.#isSilenceTold) changes.unshift({ what: 'answers', node: this.#id });
    [this.#silentSince, this.#misses, this.#isSilenceTold] = [null, 0, false];
    return changes;
  }

  #missed(at, why, latest) {
    this.#silentSince ??= latest?.at ?? at;
    this.#misses += 1;
    this.#why = why;
    // There may be no route to a balancer that never answered.
    const shouldAnswer = this.isNode || latest !== undefined;
    if (this.#row === null || this.#isSilenceTold || this.#misses < MISSES || !shouldAnswer) return [];
    this.#isSilenceTold = true;
    return [{ what: this.#isDraining ? 'stopped' : 'silent', node: this.#id }];
  }

  /** Increase of a count per second, of the latest two samples. @param {(server: object) => number} count */
  rate(count) {
    const [before, latest] = this.#samples.slice(-2).map(({ at, server }) => ({ at, count: count(server) }));
    return this.report ? perSecond(before, latest) : null;
  }

  /** Messages delivered within the span, by the upper bound of their latency. @returns {Map<number, number>} */
  latencies() {
    if (!this.report) return new Map();
    const before = new Map(this.#samples[0].server.latency_us);
    return new Map(this.report.latency_us.map(([bound, count]) => [bound, count - (before.get(bound) ?? 0)]));
  }

  /**
   * The server as the page shows it. Figures of a silent server are its last.
   * @param {number} at
   * @param {{suspectedBy: string[], viewHash: string}} mesh
   */
  show(at, { suspectedBy, viewHash }) {
    const [server, state] = [this.#samples.at(-1)?.server, this.#state()];
    const isOther = this.report !== null && this.report.view.hash !== viewHash;
    this.#otherViewSince = isOther ? this.#otherViewSince ?? at : null;
    const isIndirect = state === 'indirect';
    return {
      id: this.#id,
      role: this.#role,
      state,
      why: state === 'unready' ? server.obstacle : this.#why,
      silent_ms: this.#silentSince === null ? null : at - this.#silentSince,
      suspected_by: suspectedBy,
      other_view_ms: isOther ? at - this.#otherViewSince : null,
      is_stale: this.report?.view_is_stale ?? false,
      discovery_age_ms: server?.view_age_ms ?? null,
      up_ms: server ? Math.max(0, at - server.started_ms) : null,
      clients: (isIndirect ? this.#row.clients : server?.clients) ?? 0,
      rooms: server?.rooms ?? null,
      messages_per_s: isIndirect ? perSecond(...this.#trunks) : this.rate(({ totals }) => totals.messages),
      cpu: this.rate(({ cpu_us }) => cpu_us / 1e6),
      resident_bytes: server?.resident_bytes ?? null,
      p99_us: p99(this.latencies()),
    };
  }

  #state() {
    if (this.#row === null) return 'gone';
    if (this.#silentSince !== null) return this.#row.trunks > 0 ? 'indirect' : 'silent';
    if (this.#isDraining) return 'draining';
    return this.report.obstacle === null ? 'serving' : 'unready';
  }
}

function perSecond(before, latest) {
  if (!latest || latest.at <= before.at) return null;
  return (Math.max(0, latest.count - before.count) * 1_000) / (latest.at - before.at);
}

/** What one server saw change between two of its reports. */
function differences(before, after, isRestarted) {
  const changes = [];
  // A drain is told by `drains` and `serves`.
  const obstacle = (server) => (server.obstacle === 'draining' ? null : server.obstacle);
  if (obstacle(before) !== obstacle(after)) {
    changes.push(obstacle(after) === null ? { what: 'ready' } : { what: 'unready', why: after.obstacle });
  }
  if (before.view_is_stale !== after.view_is_stale) changes.push({ what: after.view_is_stale ? 'stale' : 'fresh' });
  const added = (to, from) => to.filter((node) => !from.includes(node));
  for (const node of added(after.suspects, before.suspects)) changes.push({ what: 'suspects', node });
  for (const node of added(before.suspects, after.suspects)) changes.push({ what: 'trusts', node });
  for (const { from, to, clients } of isRestarted ? [] : after.flows) {
    const counted = before.flows.find((flow) => flow.from === from && flow.to === to)?.clients ?? 0;
    // The server may have begun the count of a pair anew.
    const moved = clients - (counted > clients ? 0 : counted);
    if (moved > 0) changes.push({ what: 'moved', from, to, clients: moved });
  }
  return changes;
}

/** The bound that 99% of the messages stayed below. @param {Map<number, number>} latencies */
export function p99(latencies) {
  const counts = [...latencies].sort(([one], [other]) => one - other);
  const total = counts.reduce((sum, [, count]) => sum + count, 0);
  let seen = 0;
  return total === 0 ? null : counts.find(([, count]) => (seen += count) >= Math.ceil(total * 0.99))?.[0] ?? null;
}
