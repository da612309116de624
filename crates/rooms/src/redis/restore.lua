-- ARGV: version, then per seat: client, session, accepted_at, number, node, status (m: member,
-- w: waiting, o: neither), place, data (empty: none).
local named, list_after = {}, nil
local known_version, is_news = tonumber(ARGV[11]), false
for at = 12, #ARGV, 8 do
  local client, requester, kind = ARGV[at], requester_at(at), ARGV[at + 5]
  local known = read(client)
  local place = known and place_of(client)
  if kind == 'o' or (known and not is_behind(known, place, requester, kind, now < settled_at)) then
    refresh(client, requester)
  else
    if place == 'm' then
      redis.call('ZREM', members, client)
      redis.call('ZREM', order, client)
      count = count - 1
      is_news = true
    elseif place == 'w' then
      redis.call('ZREM', waiting, client)
      queue_moved = 1
    end
    redis.call('ZREM', checkin, client)
    if place then
      served(known.node, -1)
    end
    requester.since, requester.data = ARGV[at + 6], ARGV[at + 7]
    local is_same = known and known.session == requester.session
    if is_same and tonumber(known.number) > tonumber(requester.number) then
      -- The record of a later command of the session keeps its number and data.
      requester.number, requester.data = known.number, known.data
    end
    last_place = math.max(last_place, tonumber(requester.since))
    -- Further seats may follow.
    settled_at = now + settle
    if kind == 'm' then
      redis.call('ZADD', members, now, client)
      redis.call('ZADD', order, requester.since, client)
      count = count + 1
      -- States sent meanwhile lack this member.
      is_news = true
    else
      redis.call('ZADD', waiting, requester.since, client)
      redis.call('ZADD', checkin, now, client)
    end
    served(requester.node, 1)
    write(client, requester)
  end
  table.insert(named, { client, requester.session })
end
redis.call('HSET', meta, 'settled', text(settled_at))
-- A query of the lost room was answered with a version made from the current time.
version = math.max(version or now, known_version)
if is_news then
  version = version + 1
end
