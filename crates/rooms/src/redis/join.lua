-- ARGV: client, session, born, number, node, data, maximum waiting clients (0: no limit).
local client, who, data, longest_line = ARGV[10], who_at(10), ARGV[15], tonumber(ARGV[16])
expire()
admit()
local known = read(client)
if known and outdates(known, who) then
  known = nil
elseif known and has_done(known, who) then
  refresh(client, who)
else
  local place, takes = known and place_of(client), true
  if place then
    local shown = data ~= '' and data ~= known.data
    who.data = shown and data or known.data
    who.since = known.since
    if shown and place == 'm' then
      joined(client, data)
    end
    served(known.node, -1)
    touch(client, place)
  else
    who.data = data
    if has_room() then
      redis.call('ZREM', checkin, client)
      redis.call('ZADD', members, now, client)
      enter(client, who)
    elseif longest_line > 0 and redis.call('ZCARD', waiting) >= longest_line then
      takes = false
    else
      who.since = next_place()
      redis.call('ZADD', waiting, who.since, client)
      redis.call('ZADD', checkin, now, client)
    end
  end
  if takes then
    served(who.node, 1)
    write(client, who)
  end
end
local asked_of, list_after = { { client, who.session } }, ''
