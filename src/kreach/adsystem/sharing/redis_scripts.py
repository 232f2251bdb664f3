"""Lua scripts that Redis runs atomically.

Every script first checks that Redis is still the run that the caller means. A Redis that was
restarted, empty or from an old copy, has another `run_id`. Keys of another run are never read:
their names differ. So a Redis that lost its memory is the same as a new one, and all bidders send
it again what their own logs hold.

Keys, all with the prefix {prefix}:run_id:

    members   bidder: the digest of the bidders it knows, and the id of its log
    turns     bidder: the number of its last sync, by which a late one is recognized
    money:C   g:BIDDER granted, s:BIDDER spent, in micros, of campaign C; of family F it is money:-F
    money:C:D the same for day D of the flight
    rows      bidder: the last row of its log that is counted
    counts:C:V  impressions by group of campaign C on catalogue V, 32 bits each
    times:C:V   of campaigns with rolling caps: when each impression was bid on
    feed      a stream of newly counted rows, for the other bidders
    traffic   a stream of requests by group, for the other bidders
    clocks    bidder: how far its clock is ahead of that of Redis (`fleet_clocks.py`)
    campaigns number: definition, and `revision`: the newest revision there is
    families  the same; a family is there before its campaigns
"""

__all__ = ["ADD_ROWS", "SYNC"]

_SAME_RUN = """
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
if run ~= ARGV[1] then return {'other run', run} end
local base = KEYS[1]
local me = ARGV[2]
"""

SYNC = (
    _SAME_RUN
    + """
-- ARGV: 3 the id of the log, 4 a digest of the bidders' names, 5 their names as JSON, 6 '1' if the
-- bidder joins this run, 7 JSON of [campaign, budget, spent, wanted, day or -1, daily, spent,
-- wanted], 8 the turn.
-- A sync that timed out may still arrive after a newer one. It is refused: the newer one may have
-- asked for more.
-- Returns 'ok', whether leases are granted, who is missing, and for each campaign what is granted,
-- what could be, and what others have spent; the same for the day.
local function text(number) return string.format('%.0f', number) end

local known = redis.call('HGET', base .. 'members', me)
local member = ARGV[4] .. ' ' .. ARGV[3]
if known and string.match(known, '%S+$') ~= ARGV[3] then return {'another log'} end
if not known and ARGV[6] ~= '1' then return {'not joined'} end
if tonumber(ARGV[8]) <= tonumber(redis.call('HGET', base .. 'turns', me) or '0') then
  return {'late'}
end
redis.call('HSET', base .. 'turns', me, ARGV[8])
redis.call('HSET', base .. 'members', me, member)

local missing = {}
for _, name in ipairs(cjson.decode(ARGV[5])) do
  local other = redis.call('HGET', base .. 'members', name)
  if not other or string.match(other, '^%S+') ~= ARGV[4] then table.insert(missing, name) end
end
local open = #missing == 0

local function lease(key, limit, spent, wanted)
  local granted, others, spent_elsewhere = 0, 0, 0
  local all = redis.call('HGETALL', key)
  for i = 1, #all, 2 do
    local kind, who, value = string.sub(all[i], 1, 1), string.sub(all[i], 3), tonumber(all[i + 1])
    if who == me then
      if kind == 'g' then granted = value end
    elseif kind == 'g' then others = others + value
    else spent_elsewhere = spent_elsewhere + value end
  end
  local allowed = math.max(limit - others, 0)
  local given = wanted
  if ARGV[6] ~= '1' and wanted > granted then
    given = granted
    if open then given = math.max(granted, math.min(wanted, allowed)) end
  end
  given = math.max(given, spent)  -- a limit may be younger than what was spent
  redis.call('HSET', key, 'g:' .. me, text(given), 's:' .. me, text(spent))
  redis.call('EXPIRE', key, 7776000)
  return text(given), text(allowed), text(spent_elsewhere)
end

local answer = {}
for _, one in ipairs(cjson.decode(ARGV[7])) do
  local key = base .. 'money:' .. text(one[1])
  local g, a, e = lease(key, one[2], one[3], one[4])
  table.insert(answer, g)
  table.insert(answer, a)
  table.insert(answer, e)
  g, a, e = '0', '0', '0'
  if one[5] >= 0 then g, a, e = lease(key .. ':' .. text(one[5]), one[6], one[7], one[8]) end
  table.insert(answer, g)
  table.insert(answer, a)
  table.insert(answer, e)
end
return {'ok', open and '1' or '0', table.concat(missing, ' '), answer}
"""
)

ADD_ROWS = (
    _SAME_RUN
    + """
-- ARGV: 3 the row after which these come, 4 the last of them, 5 JSON of [place, [group, n, ...]]
-- by campaign and catalogue, 6 JSON of [place, since, [member, moment, ...]] of rolling caps,
-- 7 '1' to publish them in the feed, then packed rows by catalogue: 8 its version, 9 rows...
-- Returns 'ok' and the last row that is counted now: not ARGV[4] if ARGV[3] was wrong.
local rows = redis.call('HGET', base .. 'rows', me) or '0'
if rows ~= ARGV[3] then return {'ok', rows} end
for _, one in ipairs(cjson.decode(ARGV[5])) do
  local key, flat = base .. 'counts:' .. one[1], one[2]
  for i = 1, #flat, 400 do
    local call = {'BITFIELD', key, 'OVERFLOW', 'SAT'}
    for j = i, math.min(i + 399, #flat), 2 do
      table.insert(call, 'INCRBY')
      table.insert(call, 'u32')
      table.insert(call, '#' .. string.format('%.0f', flat[j]))
      table.insert(call, string.format('%.0f', flat[j + 1]))
    end
    redis.call(unpack(call))
  end
  redis.call('EXPIRE', key, 7776000)
end
for _, one in ipairs(cjson.decode(ARGV[6])) do
  local key, flat = base .. 'times:' .. one[1], one[3]
  for j = 1, #flat, 2 do redis.call('ZADD', key, flat[j + 1], flat[j]) end
  redis.call('ZREMRANGEBYSCORE', key, '-inf', '(' .. string.format('%.0f', one[2]))
  redis.call('EXPIRE', key, 7776000)
end
redis.call('HSET', base .. 'rows', me, ARGV[4])
if ARGV[7] == '1' then
  local call = {'XADD', base .. 'feed', 'MAXLEN', '~', '20000', '*',
                'from', me, 'after', ARGV[3], 'last', ARGV[4]}
  for i = 8, #ARGV do table.insert(call, ARGV[i]) end
  redis.call(unpack(call))
end
return {'ok', ARGV[4]}
"""
)
