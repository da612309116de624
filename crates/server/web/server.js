/**
 * Samples of one server: its state, its rates, and changes between two samples. Nothing here
 * touches the document.
 */

/** Maximum age of the samples of a p99, in milliseconds. */
const SPAN_MS = 10_000;
/** Missing answers after which a server is reported as silent. */
const MAX_MISSES = 2;

/** One server. */
export class ServerSamples {
  #id;
  #role;
  /** Its row in the latest answer, or null. */
  #row = null;
  /** Samples of its present process, oldest first: those of the span and one before. */
  #samples = [];
  /** Messages from its trunks in the latest two answers, as nodes report them. */
  #trunks = [];
  /** Time of its latest report if it does not answer, or null. */
  #silentSince = null;
  /** Why it does not answer. */
  #why = '';
  #misses = 0;
  #isSilenceReported = false;
  #isDraining = false;
  /** Time since which its view differs from the asked server's, or null. */
  #otherViewSince = null;

  /** @param {string} id @param {'node' | 'balancer'} role */
  constructor(id, role) {
    this.#id = id;
    this.#role = role;
  }

  /** Its latest report; null if it did not answer the latest request. */
  get report() {
    return this.#silentSince === null ? (this.#samples.at(-1)?.server ?? null) : null;
  }

  get isNode() {
    return this.#role === 'node';
  }

  /** Returns `true` if it left the answers and has been silent for `afterMs` milliseconds. */
  isForgotten(at, afterMs) {
    return this.#row === null && at - this.#silentSince >= afterMs;
  }

  /**
   * Handles its row of an answer and returns the changes, as `EventLog.add` takes them.
   *
   * @param {number} at milliseconds
   * @param {object | null} row null: the answer does not contain it
   * @param {boolean} isFirst whether it is the first answer of all
   * @returns {object[]}
   */
  update(at, row, isFirst) {
    const before = this.#row;
    const latest = this.#samples.at(-1);
    this.#row = row;
    const changes = [];
    if (row?.server) changes.push(...this.#answered(at, row.server, latest));
    else changes.push(...this.#missed(at, row?.why ?? 'no answer', latest));
    if (row === null) {
      const isStopReported = this.#isDraining && this.#isSilenceReported;
      const kind = this.#isDraining ? 'stopped' : 'left';
      if (before !== null && !isStopReported) changes.push({ kind, node: this.#id });
      this.#isSilenceReported = false;
      return changes;
    }
    this.#trunks = [...this.#trunks.slice(-1), { at, count: row.messages ?? 0 }];
    const wasDraining = this.#isDraining;
    this.#isDraining = this.#drains(row);
    if (isFirst) return changes;
    if (before === null) changes.push({ kind: 'joined', node: this.#id });
    if (this.#isDraining !== wasDraining) {
      changes.push({ kind: this.#isDraining ? 'drains' : 'serves', node: this.#id });
    }
    return changes;
  }

  #drains({ draining, server }) {
    const reported = server ? server.obstacle === 'draining' : this.#isDraining;
    return draining ?? reported;
  }

  #answered(at, server, latest) {
    const isRestarted = latest !== undefined && latest.server.started_ms !== server.started_ms;
    if (isRestarted) this.#samples = [];
    this.#samples.push({ at, server });
    const isOld = (sample) => sample !== undefined && at - sample.at >= SPAN_MS;
    while (isOld(this.#samples[1])) this.#samples.shift();
    const changes = latest ? differences(latest.server, server, isRestarted) : [];
    if (isRestarted) changes.unshift({ kind: 'restarted', node: this.#id });
    else if (this.#isSilenceReported) changes.unshift({ kind: 'answers', node: this.#id });
    this.#silentSince = null;
    this.#misses = 0;
    this.#isSilenceReported = false;
    return changes;
  }

  #missed(at, why, latest) {
    this.#silentSince ??= latest?.at ?? at;
    this.#misses += 1;
    this.#why = why;
    // There may be no route to a balancer that never answered.
    const shouldAnswer = this.#row !== null && (this.isNode || latest !== undefined);
    if (!shouldAnswer || this.#isSilenceReported || this.#misses < MAX_MISSES) return [];
    this.#isSilenceReported = true;
    return [{ kind: this.#isDraining ? 'stopped' : 'silent', node: this.#id }];
  }

  /**
   * Returns the increase of a count per second between the latest two samples; null without two
   * samples of one process, or while the server does not answer.
   *
   * @param {(server: object) => number} count of a report
   */
  rate(count) {
    const samples = this.#samples.slice(-2);
    const [before, latest] = samples.map(({ at, server }) => ({ at, count: count(server) }));
    return this.report ? perSecond(before, latest) : null;
  }

  /**
   * Returns the messages delivered within the last 10 s, by the upper bound of their latency in
   * microseconds; empty while the server does not answer.
   *
   * @returns {Map<number, number>}
   */
  latencies() {
    if (!this.report) return new Map();
    const before = new Map(this.#samples[0].server.latency_us);
    const increase = ([bound, count]) => [bound, count - (before.get(bound) ?? 0)];
    return new Map(this.report.latency_us.map(increase));
  }

  /**
   * Returns the server for the page, with null for unknown values. A silent server keeps its last
   * values, except rates. `state`: `serving`, `draining`, `unready`, `silent`, `gone` (not in the
   * answer), or `indirect` (only nodes report it).
   *
   * @param {number} at milliseconds
   * @param {{suspectedBy: string[], viewHash: string}} mesh `viewHash`: of the asked server
   */
  snapshot(at, { suspectedBy, viewHash }) {
    const server = this.#samples.at(-1)?.server;
    const state = this.#state();
    const isOther = this.report !== null && this.report.view.hash !== viewHash;
    this.#otherViewSince = isOther ? (this.#otherViewSince ?? at) : null;
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
      messages_per_s: isIndirect ? perSecond(...this.#trunks) : this.rate(messages),
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

const messages = ({ totals }) => totals.messages;

function perSecond(before, latest) {
  if (!latest || latest.at <= before.at) return null;
  return (Math.max(0, latest.count - before.count) * 1_000) / (latest.at - before.at);
}

/** Returns the changes between two reports of one server. */
function differences(before, after, isRestarted) {
  const changes = [];
  // The events `drains` and `serves` report a drain.
  const obstacle = (server) => (server.obstacle === 'draining' ? null : server.obstacle);
  if (obstacle(before) !== obstacle(after)) {
    const unready = { kind: 'unready', why: after.obstacle };
    changes.push(obstacle(after) === null ? { kind: 'ready' } : unready);
  }
  const isStale = after.view_is_stale;
  if (before.view_is_stale !== isStale) changes.push({ kind: isStale ? 'stale' : 'fresh' });
  const added = (to, from) => to.filter((node) => !from.includes(node));
  const suspected = added(after.suspects, before.suspects);
  const trusted = added(before.suspects, after.suspects);
  changes.push(...suspected.map((node) => ({ kind: 'suspects', node })));
  changes.push(...trusted.map((node) => ({ kind: 'trusts', node })));
  for (const { from, to, clients } of isRestarted ? [] : after.flows) {
    const flow = before.flows.find((earlier) => earlier.from === from && earlier.to === to);
    const counted = flow?.clients ?? 0;
    // A lower count began again at 0, because the server keeps the counts of only some pairs.
    const moved = clients - (counted > clients ? 0 : counted);
    if (moved > 0) changes.push({ kind: 'moved', from, to, clients: moved });
  }
  return changes;
}

/**
 * Returns the upper bound of 99% of the latencies in microseconds, or null without any.
 *
 * @param {Map<number, number>} latencies messages by upper bound in microseconds
 */
export function p99(latencies) {
  const counts = [...latencies].sort(([one], [other]) => one - other);
  const total = counts.reduce((sum, [, count]) => sum + count, 0);
  let seen = 0;
  const isP99 = ([, count]) => (seen += count) >= Math.ceil(total * 0.99);
  return total === 0 ? null : (counts.find(isP99)?.[0] ?? null);
}
