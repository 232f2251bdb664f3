SELECT
  "t7"."campaign",
  "t7"."period",
  "t7"."group",
  COALESCE(COUNT_IF(NOT (
    "t7"."copy"
  )), 0) AS "impressions",
  COALESCE(COUNT_IF("t7"."copy"), 0) AS "duplicates"
FROM (
  SELECT
    *
  FROM (
    SELECT
      "t4"."campaign",
      "t4"."group",
      DATE_TRUNC('DAY', "t4"."ts") AS "period",
      "t4"."whole" AND (
        "t4"."rank" > 0
      ) AS "copy",
      "t4"."ts"
    FROM (
      SELECT
        "t2"."campaign",
        "t2"."group",
        "t2"."ts",
        "t2"."impression_id",
        "t2"."whole",
        ROW_NUMBER() OVER (
          PARTITION BY "t2"."campaign", "t2"."impression_id", "t2"."whole"
          ORDER BY "t2"."ts" ASC, "t2"."group" ASC
        ) - 1 AS "rank"
      FROM (
        SELECT
          "t0"."CAMPAIGN" AS "campaign",
          "t0"."GROUP" AS "group",
          "t0"."TS" AS "ts",
          "t0"."IMPRESSION_ID" AS "impression_id",
          (
            "t0"."GROUP" IS NOT NULL
          )
          AND (
            "t0"."TS" IS NOT NULL
          )
          AND (
            "t0"."IMPRESSION_ID" IS NOT NULL
          ) AS "whole"
        FROM "ADS"."IMPRESSIONS" AS "t0"
        WHERE
          "t0"."CAMPAIGN" IN ('c', 'it\'s')
          AND (
            (
              "t0"."TS" IS NULL
            )
            OR (
              "t0"."TS" < TIMESTAMP_TZ_FROM_PARTS(2026, 11, 3, 0, 0, 0, 0, 'UTC')
            )
          )
      ) AS "t2"
    ) AS "t4"
  ) AS "t6"
  WHERE
    (
      "t6"."ts" IS NULL
    )
    OR (
      "t6"."ts" >= TIMESTAMP_TZ_FROM_PARTS(2026, 11, 1, 0, 0, 0, 0, 'UTC')
    )
) AS "t7"
GROUP BY
  1,
  2,
  3
