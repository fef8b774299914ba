CREATE TABLE "event_consumers" (
	"name" text COLLATE "C" PRIMARY KEY NOT NULL,
	"claim_id" uuid,
	"leased_until" timestamp(6) with time zone,
	"failures" bigint DEFAULT 0 NOT NULL,
	"error" text COLLATE "C",
	"position" bigint NOT NULL,
	"event_id" uuid NOT NULL,
	"next_attempt_at" timestamp(6) with time zone,
	"failed_position" bigint,
	"failed_event_id" uuid
);
--> statement-breakpoint
CREATE TABLE "scheduled_jobs" (
	"name" text COLLATE "C" PRIMARY KEY NOT NULL,
	"claim_id" uuid,
	"leased_until" timestamp(6) with time zone,
	"failures" bigint DEFAULT 0 NOT NULL,
	"error" text COLLATE "C",
	"schedule" text COLLATE "C" NOT NULL,
	"next_run_at" timestamp(6) with time zone NOT NULL,
	"last_started_at" timestamp(6) with time zone,
	"last_duration_ms" bigint,
	"last_result" text COLLATE "C",
	"last_success_at" timestamp(6) with time zone
);
