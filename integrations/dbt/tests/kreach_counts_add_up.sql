-- Every row of the log is in the counts, as an impression or as a duplicate.
with counted as (select coalesce(sum(impressions + duplicates), 0) as n from {{ ref('kreach_counts') }}),
     listed as (select count(*) as n from {{ source('kreach', 'impressions') }})
select counted.n as counted_rows, listed.n as log_rows
from counted cross join listed
where counted.n <> listed.n
