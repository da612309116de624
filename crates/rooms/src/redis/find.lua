-- ARGV: client.
local named, list_after = { { ARGV[10] } }, nil
