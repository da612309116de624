-- ARGV: version, then per seat: client, session, born, number, node, status (m: member, w: waiting,
-- o: out), place, data.
local asked_of, list_after = {}, nil
local told, is_news = tonumber(ARGV[10]), false
for at = 11, #ARGV, 8 do
  local client, who, kind = ARGV[at], who_at(at), ARGV[at + 5]
  local known = read(client)
  local place = known and place_of(client)
  if kind == 'o' or (known and not is_behind(known, place, who, kind, now < settled_at)) then
    refresh(client, who)
  else
    if place == 'm' then
      redis.call('ZREM', members, client)
      redis.call('ZREM', order, client)
      count = count - 1
      is_news = true
    elseif place == 'w' then
      redis.call('ZREM', waiting, client)
      moved = 1
    end
    redis.call('ZREM', checkin, client)
    if place then
      served(known.node, -1)
    end
    who.since, who.data = ARGV[at + 6], ARGV[at + 7]
    if known and known.session == who.session and tonumber(known.number) > tonumber(who.number) then
      -- The record of a later command of the session keeps its number and data.
      who.number, who.data = known.number, known.data
    end
    last_place = math.max(last_place, tonumber(who.since))
    -- Further seats may follow.
    settled_at = now + settle
    if kind == 'm' then
      redis.call('ZADD', members, now, client)
      redis.call('ZADD', order, who.since, client)
      count = count + 1
      -- States sent meanwhile lack this member.
      is_news = true
    else
      redis.call('ZADD', waiting, who.since, client)
      redis.call('ZADD', checkin, now, client)
    end
    served(who.node, 1)
    write(client, who)
  end
  table.insert(asked_of, { client, who.session })
end
redis.call('HSET', meta, 'settled', text(settled_at))
-- A query of the lost room was answered with a version made from the current time.
version = math.max(version or now, told)
if is_news then
  version = version + 1
end
