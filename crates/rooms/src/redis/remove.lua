-- ARGV: client, session, accepted_at, number, node.
local client, requester = ARGV[11], requester_at(11)
local known = read(client)
local is_last = known and known.session == requester.session and tonumber(known.number) == tonumber(requester.number)
local place = is_last and place_of(client)
if place then
  gone(client, known, place, 2)
end
local named, list_after = { { client, requester.session } }, nil
