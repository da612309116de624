-- ARGV: client, session, accepted_at, number, node, data, maximum waiting clients (-1: no limit).
local client, requester = ARGV[11], requester_at(11)
local data, max_waiting = ARGV[16], tonumber(ARGV[17])
expire()
admit()
local known = read(client)
if known and outdates(known, requester) then
  known = nil
elseif known and has_done(known, requester) then
  refresh(client, requester)
else
  local place, takes = known and place_of(client), true
  if place then
    local shown = data ~= '' and data ~= known.data
    requester.data = shown and data or known.data
    requester.since = known.since
    if shown and place == 'm' then
      joined(client, data)
    end
    served(known.node, -1)
    touch(client, place)
  else
    requester.data = data
    if has_room() then
      redis.call('ZREM', checkin, client)
      redis.call('ZADD', members, now, client)
      enter(client, requester)
    elseif max_waiting >= 0 and redis.call('ZCARD', waiting) >= max_waiting then
      takes = false
    else
      requester.since = next_place()
      redis.call('ZADD', waiting, requester.since, client)
      redis.call('ZADD', checkin, now, client)
    end
  end
  if takes then
    served(requester.node, 1)
    write(client, requester)
  end
end
local named, list_after = { { client, requester.session } }, ''
