-- Rules of a room, as in core/room.rs. The script of one operation follows, then end.lua.
-- KEYS: members, order, waiting, checkin, info, meta.
-- ARGV: now (0: this server's clock), stale, capacity, remembered, idle, page, page_bytes,
-- stale_at_once, milliseconds since this server process replaced another one (-1: never), seals (1
-- or 0), then the arguments of the operation. Times are in milliseconds.
local members, order, waiting, checkin, info, meta = unpack(KEYS)
local now, stale, default_capacity, remembered = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local idle, page_size, page_bytes, stale_at_once = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local replaced, seals = tonumber(ARGV[9]), ARGV[10] == '1'
if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end

-- See Rules::settle_ms and MIN_SETTLE_MS.
local min_settle = 5000
local settle = math.max(math.floor(stale / 2), min_settle)

-- Formats numbers of 13 and more digits, which Redis would write with an exponent.
local function text(number)
  return string.format('%.0f', number)
end

local known_meta = {}
local fields = redis.call('HGETALL', meta)
for i = 1, #fields, 2 do
  known_meta[fields[i]] = fields[i + 1]
end
local version, last_place = tonumber(known_meta.version), tonumber(known_meta.place) or 0
local incarnation = tonumber(known_meta.incarnation) or 0
-- Server process that runs this script. Another one may have written the room last.
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
-- End of the time in which lost seats are restored. Until then no seat expires, and no other client
-- gets a seat in a room with a capacity.
local settled_at = tonumber(known_meta.settled) or 0
local own_capacity = tonumber(known_meta.capacity)
local count = redis.call('ZCARD', members)
if now - (tonumber(known_meta.touched) or now) > stale and count > 0 then
  settled_at = now + settle
  redis.call('HSET', meta, 'settled', text(settled_at))
end
if version and known_meta.run ~= run then
  -- The last writes may not have reached this server.
  incarnation = math.max(now, incarnation + 1)
  settled_at = now + settle
  redis.call('HSET', meta, 'run', run, 'incarnation', text(incarnation), 'settled', text(settled_at))
end
if not version and replaced >= 0 and replaced < min_settle then
  -- The room is lost or new, and not all nodes have had time to restore it.
  settled_at = math.max(settled_at, now + min_settle - replaced)
end
local changes, statuses, list, queue_moved, more, by_node = {}, {}, {}, 0, 0, {}

local function read(client)
  local known = redis.call('HGET', info, client)
  if not known then
    return nil
  end
  local it = {}
  it.session, it.accepted_at, it.number, it.node, it.since, it.data =
    string.match(known, '^(%x+)\n(%d+)\n(%d+)\n([^\n]*)\n(%d+)\n(.*)$')
  return it
end

local function write(client, it)
  local fields = { it.session, it.accepted_at, it.number, it.node, it.since, it.data }
  redis.call('HSET', info, client, table.concat(fields, '\n'))
end

-- Returns 'm' for a member, 'w' for a waiting client, nil for another one.
local function place_of(client)
  if redis.call('ZSCORE', members, client) then
    return 'm'
  elseif redis.call('ZSCORE', waiting, client) then
    return 'w'
  end
end

local function served(node, by)
  by_node[node] = (by_node[node] or 0) + by
end

local function outdates(known, requester)
  local accepted_at, other = tonumber(known.accepted_at), tonumber(requester.accepted_at)
  local is_later = accepted_at > other or (accepted_at == other and known.session > requester.session)
  return is_later and known.session ~= requester.session
end

local function has_done(known, requester)
  return known.session == requester.session and tonumber(requester.number) <= tonumber(known.number)
end

-- Returns true if the seat at a node is later than the record. Then the store has lost the
-- command that made the seat, or the admission. A settling room gives no seat away, so a waiting
-- client that repeated its join after the loss is still a member.
local function is_behind(known, place, requester, kind, is_settling)
  local number, other = tonumber(known.number), tonumber(requester.number)
  local is_same = number == other or (is_settling and number > other)
  is_same = is_same and known.session == requester.session
  local was_admitted = is_same and place == 'w' and kind == 'm'
  return not outdates(known, requester) and (was_admitted or not has_done(known, requester))
end

local function next_place()
  last_place = math.max(now, last_place + 1)
  return text(last_place)
end

local function joined(client, data)
  table.insert(changes, { 1, client, data })
end

local function is_full()
  local capacity = own_capacity or default_capacity
  return capacity > 0 and count >= capacity
end

local function has_room()
  local is_limited = (own_capacity or default_capacity) > 0
  return not known_meta.sealed and (not is_limited or (now >= settled_at and not is_full()))
end

-- Records a refresh at the client's place.
local function touch(client, place)
  if place == 'm' then
    redis.call('ZADD', members, now, client)
  else
    redis.call('ZADD', checkin, now, client)
  end
end

local function enter(client, requester)
  requester.since = next_place()
  redis.call('ZADD', order, requester.since, client)
  count = count + 1
  joined(client, requester.data)
end

local function refresh(client, requester)
  local known = read(client)
  local place = known and not outdates(known, requester) and place_of(client)
  if not place then
    return
  end
  touch(client, place)
  local number = requester.number
  if known.session == requester.session and tonumber(known.number) > tonumber(number) then
    number = known.number
  end
  if known.session ~= requester.session or known.node ~= requester.node or known.number ~= number then
    served(known.node, -1)
    served(requester.node, 1)
    known.session, known.accepted_at = requester.session, requester.accepted_at
    known.number, known.node = number, requester.node
    write(client, known)
  end
end

-- Marks a client as gone and keeps its record.
local function gone(client, known, place, reason)
  if place == 'm' then
    redis.call('ZREM', members, client)
    redis.call('ZREM', order, client)
    count = count - 1
    table.insert(changes, { reason, client, '' })
  else
    redis.call('ZREM', waiting, client)
    queue_moved = 1
  end
  served(known.node, -1)
  known.data = ''
  redis.call('ZADD', checkin, now - stale + remembered, client)
  write(client, known)
end

local function expire()
  if now < settled_at then
    return
  end
  for _, client in ipairs(redis.call('ZRANGEBYSCORE', members, '-inf', now - stale, 'LIMIT', 0, stale_at_once)) do
    gone(client, read(client), 'm', 3)
  end
  for _, client in ipairs(redis.call('ZRANGEBYSCORE', checkin, '-inf', now - stale, 'LIMIT', 0, stale_at_once)) do
    if redis.call('ZSCORE', waiting, client) then
      gone(client, read(client), 'w', 3)
    else
      redis.call('ZREM', checkin, client)
      redis.call('HDEL', info, client)
    end
  end
end

local function admit()
  while has_room() do
    local client = redis.call('ZRANGE', waiting, 0, 0)[1]
    if not client then
      return
    end
    local known = read(client)
    redis.call('ZREM', waiting, client)
    redis.call('ZADD', members, redis.call('ZSCORE', checkin, client), client)
    redis.call('ZREM', checkin, client)
    enter(client, known)
    write(client, known)
    queue_moved = 1
  end
end

-- Returns the status of one session, or of the client's current session if session is nil.
local function status_of(client, session)
  local known = read(client)
  if not known then
    return { 3, 0, 0 }
  end
  local place = (not session or known.session == session) and place_of(client)
  if place == 'm' then
    return { 0, tonumber(known.since), 0 }
  elseif place == 'w' then
    return { 1, tonumber(known.since), redis.call('ZRANK', waiting, client) }
  end
  return { 2, 0, 0 }
end

local function data_of(clients)
  local known = redis.call('HMGET', info, unpack(clients))
  for at, it in ipairs(known) do
    known[at] = string.match(it, '^%x+\n%d+\n%d+\n[^\n]*\n%d+\n(.*)$')
  end
  return known
end

local function page(after)
  local from = 0
  if after ~= '' then
    local rank = redis.call('ZRANK', order, after)
    local known = not rank and read(after)
    from = rank and rank + 1 or known and redis.call('ZCOUNT', order, '-inf', known.since) or 0
  end
  local bytes, clients, data = 0, redis.call('ZRANGE', order, from, from + page_size), {}
  for at, client in ipairs(clients) do
    if #list >= page_size or bytes >= page_bytes then
      more = 1
      return
    end
    if #data < at then
      for _, it in ipairs(data_of({ unpack(clients, at, math.min(at + 99, #clients)) })) do
        table.insert(data, it)
      end
    end
    bytes = bytes + #client + #data[at]
    table.insert(list, { client, data[at] })
  end
end

local function requester_at(at)
  return { session = ARGV[at + 1], accepted_at = ARGV[at + 2], number = ARGV[at + 3], node = ARGV[at + 4] }
end
