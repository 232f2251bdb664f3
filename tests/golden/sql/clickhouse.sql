SELECT
  "t7"."campaign" AS "campaign",
  "t7"."period" AS "period",
  "t7"."group" AS "group",
  COALESCE(countIf(NOT (
    "t7"."copy"
  )), 0) AS "impressions",
  COALESCE(countIf("t7"."copy"), 0) AS "duplicates"
FROM (
  SELECT
    *
  FROM (
    SELECT
      "t4"."campaign" AS "campaign",
      "t4"."group" AS "group",
      CAST(dateTrunc('DAY', "t4"."ts") AS Nullable(DateTime)) AS "period",
      "t4"."whole" AND (
        "t4"."rank" > 0
      ) AS "copy",
      "t4"."ts" AS "ts"
    FROM (
      SELECT
        "t2"."campaign" AS "campaign",
        "t2"."group" AS "group",
        "t2"."ts" AS "ts",
        "t2"."impression_id" AS "impression_id",
        "t2"."whole" AS "whole",
        ROW_NUMBER() OVER (
          PARTITION BY "t2"."campaign", "t2"."impression_id", "t2"."whole"
          ORDER BY "t2"."ts" ASC, "t2"."group" ASC
          ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING
        ) - 1 AS "rank"
      FROM (
        SELECT
          "t0"."campaign" AS "campaign",
          "t0"."group" AS "group",
          "t0"."ts" AS "ts",
          "t0"."impression_id" AS "impression_id",
          isNotNull("t0"."group")
          AND isNotNull("t0"."ts")
          AND isNotNull("t0"."impression_id") AS "whole"
        FROM "ads"."impressions" AS "t0"
        WHERE
          "t0"."campaign" IN ('c', 'it''s')
          AND (
            isNull("t0"."ts")
            OR (
              "t0"."ts" < toDateTime64('2026-11-03 00:00:00.000000', 6, 'UTC')
            )
          )
      ) AS "t2"
    ) AS "t4"
  ) AS "t6"
  WHERE
    isNull("t6"."ts")
    OR (
      "t6"."ts" >= toDateTime64('2026-11-01 00:00:00.000000', 6, 'UTC')
    )
) AS "t7"
GROUP BY
  "t7"."campaign",
  "t7"."period",
  "t7"."group"
