DROP INDEX "orders_number";--> statement-breakpoint
DROP INDEX "products_sku";--> statement-breakpoint
DROP INDEX "users_email";