# Slopes of out-group ratings on a distance, and p of permuting groups: Rscript tests/reference/covariates.R [FOLDER]
# Writes covariates.csv. Base R's lm, all orders one by one, and lme4 where no rating is missing.
suppressMessages(library(lme4))

arguments <- commandArgs(trailingOnly = TRUE)
folder <- if (length(arguments)) arguments[1] else "tests/reference"

orders <- function(items) {
  if (length(items) < 2) return(list(items))
  do.call(c, lapply(seq_along(items), function(i) lapply(orders(items[-i]), function(rest) c(items[i], rest))))
}

slope_of <- function(cells, x) {
  cells$x <- x[cbind(cells$p, cells$e)]
  coef(summary(lm(effect ~ x + factor(p) + factor(e), cells)))["x", ]
}

answers_of <- function(scenario) {
  ratings <- read.csv(file.path(folder, paste0(scenario, ".csv")), stringsAsFactors = FALSE)
  groups <- sort(unique(ratings$perceiver))
  k <- length(groups)
  ratings$p <- match(ratings$perceiver, groups)
  ratings$e <- match(ratings$experiencer, groups)
  # What each pair has beside the levels of the narratives that rated it.
  ratings$pair <- factor(paste(ratings$p, ratings$e))
  effects <- coef(lm(rating ~ 0 + pair + factor(narrative), ratings))
  cells <- unique(ratings[ratings$in_group == 0, c("p", "e", "pair")])
  cells$effect <- effects[paste0("pair", cells$pair)]
  # Any numbers do: one matrix as it is, and one the same in both orders.
  directed <- outer(seq_len(k), seq_len(k), function(a, b) (7 * a + 3 * b * b) %% 11)
  distances <- list(directed = directed, symmetric = directed * t(directed))
  do.call(rbind, lapply(names(distances), function(name) {
    x <- distances[[name]]
    observed <- slope_of(cells, x)
    t <- sapply(orders(seq_len(k)), function(order) abs(slope_of(cells, x[order, order])[["t value"]]))
    by_lme4 <- NA
    if (nrow(ratings) == length(unique(ratings$narrative)) * k^2) {
      outside <- ratings[ratings$in_group == 0, ]
      outside$x <- x[cbind(outside$p, outside$e)]
      by_lme4 <- fixef(suppressMessages(suppressWarnings(
        lmer(rating ~ x + factor(p) + factor(e) + (1 + x | narrative), outside, REML = TRUE))))[["x"]]
    }
    data.frame(scenario = scenario, distance = name, slope = observed[["Estimate"]], lme4_slope = by_lme4,
               p = mean(t >= abs(observed[["t value"]]) - 1e-9), n_orders = length(t))
  }))
}

table <- do.call(rbind, lapply(c("complete", "missing"), answers_of))
table[] <- lapply(table, function(column) if (is.numeric(column)) sprintf("%.17g", column) else column)
write.csv(table, file.path(folder, "covariates.csv"), row.names = FALSE, quote = FALSE)
