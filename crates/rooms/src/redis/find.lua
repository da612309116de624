-- ARGV: client.
local named, list_after = { { ARGV[11] } }, nil
