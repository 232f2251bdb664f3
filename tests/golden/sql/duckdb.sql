SELECT
  "t7"."campaign",
  "t7"."period",
  "t7"."group",
  COALESCE(COUNT(*) FILTER(WHERE
    NOT (
      "t7"."copy"
    )), 0) AS "impressions",
  COALESCE(COUNT(*) FILTER(WHERE
    "t7"."copy"), 0) AS "duplicates"
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
          ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING
        ) - 1 AS "rank"
      FROM (
        SELECT
          "t0"."campaign",
          "t0"."group",
          "t0"."ts",
          "t0"."impression_id",
          (
            "t0"."group" IS NOT NULL
          )
          AND (
            "t0"."ts" IS NOT NULL
          )
          AND (
            "t0"."impression_id" IS NOT NULL
          ) AS "whole"
        FROM "ads"."impressions" AS "t0"
        WHERE
          "t0"."campaign" IN ('c', 'it''s')
          AND (
            (
              "t0"."ts" IS NULL
            )
            OR (
              "t0"."ts" < MAKE_TIMESTAMPTZ(2026, 11, 3, 0, 0, 0.0, 'UTC')
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
      "t6"."ts" >= MAKE_TIMESTAMPTZ(2026, 11, 1, 0, 0, 0.0, 'UTC')
    )
) AS "t7"
GROUP BY
  1,
  2,
  3
