"""What Redis does at one stroke, in its own language.

Every script first makes sure that this is still the run of Redis that the caller means: one that
was started anew, from nothing or from an old copy, has another `run_id`. What belongs to another
run is never looked at (its keys have other names), so a Redis that forgot is the same as one that
never knew, and all bidders tell it again what their own logs hold.

Keys, all beginning with {prefix}:run_id:

    members   bidder: what it last said the bidders are, and whose log it is
    turns     bidder: the number of its last telling, by which one that comes late is known
    money:C   g:BIDDER granted, s:BIDDER spent, in micros, of campaign C
    money:C:D the same for day D of the flight
    rows      bidder: the last row of its log that is counted
    counts:C:V  impressions by group of campaign C on catalogue V, 32 bits each
    times:C:V   of campaigns with rolling caps: when each impression was bid on
    feed      a stream of newly counted rows, for the other bidders
    traffic   a stream of requests by group, for the other bidders
    campaigns number: definition, and `revision`: the newest revision there is
"""

__all__ = ["FEED", "TELL"]

_SAME_RUN = """
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
if run ~= ARGV[1] then return {'other run', run} end
local base = KEYS[1]
local me = ARGV[2]
"""

TELL = (
    _SAME_RUN
    + """
-- ARGV: 3 whose log, 4 what the bidders are, 5 their names as JSON, 6 '1' if all money is told
-- anew, 7 JSON of [campaign, budget, spent, wanted, day or -1, daily, spent, wanted], 8 the turn.
-- A telling that was given up can still be on its way and arrive after a newer one: it is refused,
-- for the newer one may have asked for more.
-- Answers 'told', whether money is given out, who is missing, and for each campaign what is
-- granted, what could be and what others have spent; the same for the day.
local function text(number) return string.format('%.0f', number) end

local known = redis.call('HGET', base .. 'members', me)
local said = ARGV[4] .. ' ' .. ARGV[3]
if known and string.match(known, '%S+$') ~= ARGV[3] then return {'another log'} end
if not known and ARGV[6] ~= '1' then return {'not told'} end
if tonumber(ARGV[8]) <= tonumber(redis.call('HGET', base .. 'turns', me) or '0') then
  return {'late'}
end
redis.call('HSET', base .. 'turns', me, ARGV[8])
redis.call('HSET', base .. 'members', me, said)

local missing = {}
for _, name in ipairs(cjson.decode(ARGV[5])) do
  local other = redis.call('HGET', base .. 'members', name)
  if not other or string.match(other, '^%S+') ~= ARGV[4] then table.insert(missing, name) end
end
local open = #missing == 0

local function lease(key, limit, spent, wanted)
  local granted, others, elsewhere = 0, 0, 0
  local all = redis.call('HGETALL', key)
  for i = 1, #all, 2 do
    local kind, who, value = string.sub(all[i], 1, 1), string.sub(all[i], 3), tonumber(all[i + 1])
    if who == me then
      if kind == 'g' then granted = value end
    elseif kind == 'g' then others = others + value
    else elsewhere = elsewhere + value end
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
  return text(given), text(allowed), text(elsewhere)
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
return {'told', open and '1' or '0', table.concat(missing, ' '), answer}
"""
)

FEED = (
    _SAME_RUN
    + """
-- ARGV: 3 the row after which these come, 4 the last of them, 5 JSON of [place, [group, n, ...]]
-- by campaign and catalogue, 6 JSON of [place, since, [member, moment, ...]] of rolling caps,
-- 7 '1' if others are told of it, then rows packed for them, by catalogue: 8 its version, 9 rows...
-- Answers 'fed' and the last row that is counted now: another than was said if `after` was wrong.
local rows = redis.call('HGET', base .. 'rows', me) or '0'
if rows ~= ARGV[3] then return {'fed', rows} end
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
return {'fed', ARGV[4]}
"""
)
