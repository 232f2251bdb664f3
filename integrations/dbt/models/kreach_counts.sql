{% set group = adapter.quote('group') %}
{% set ids = var('kreach_ids', true) %}

with impressions as (

    select
        campaign,
        {{ group }},
        ts,
        {{ kreach_period('ts') }} as period
        {%- if ids %},
        impression_id,
        -- rows without group, time or id are neither duplicates nor originals
        case
            when {{ group }} is null or ts is null or impression_id is null then 0 else 1
        end as can_repeat
        {%- endif %}
    from {{ source('kreach', 'impressions') }}

),

ranked as (

    select
        campaign,
        {{ group }},
        period,
        {%- if ids %}
        case
            when can_repeat = 1 and row_number() over (
                partition by campaign, impression_id, can_repeat
                order by ts, {{ group }}
            ) > 1 then 1 else 0
        end as is_duplicate
        {%- else %}
        0 as is_duplicate
        {%- endif %}
    from impressions

)

select
    campaign,
    period,
    {{ group }},
    sum(1 - is_duplicate) as impressions,
    sum(is_duplicate) as duplicates
from ranked
group by campaign, period, {{ group }}
