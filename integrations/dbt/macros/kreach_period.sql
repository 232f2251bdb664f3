{# The start of the period that holds a time; an error for periods that kreach does not know. #}
{% macro kreach_period(column) -%}
  {%- set period = var('kreach_period', 'day') -%}
  {%- if period not in ('hour', 'day', 'week') -%}
    {{ exceptions.raise_compiler_error("kreach_period must be hour, day or week, got " ~ period) }}
  {%- endif -%}
  {{ dbt.date_trunc(period, column) }}
{%- endmacro %}
