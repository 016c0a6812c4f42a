# Fits every ratings table of this folder by REML and writes lme4.csv: Rscript tests/reference/lme4.R [FOLDER]
# Both models, three optimizers and five starts each; the fit of the lowest criterion, polished, is the answer.
suppressMessages(library(lmerTest))

arguments <- commandArgs(trailingOnly = TRUE)
folder <- if (length(arguments)) arguments[1] else "tests/reference"

models <- list(
  fixed = rating ~ in_group + factor(perceiver) + factor(experiencer) + (1 + in_group | narrative),
  crossed = rating ~ in_group + (1 + in_group | narrative) + (1 | perceiver) + (1 | experiencer)
)
quiet <- list(check.conv.singular = "ignore", check.conv.grad = "ignore", check.conv.hess = "ignore")
controls <- list(
  bobyqa = do.call(lmerControl, c(quiet, list(
    optimizer = "bobyqa", optCtrl = list(rhobeg = 2e-2, rhoend = 1e-10, maxfun = 1e6)))),
  nloptwrap = do.call(lmerControl, c(quiet, list(
    optimizer = "nloptwrap",
    optCtrl = list(xtol_rel = 1e-13, xtol_abs = 1e-13, ftol_rel = 1e-15, ftol_abs = 1e-13, maxeval = 1e5)))),
  nlminb = do.call(lmerControl, c(quiet, list(
    optimizer = "nlminbwrap", optCtrl = list(rel.tol = 1e-15, x.tol = 1e-12, iter.max = 1e4, eval.max = 1e5))))
)

# Theta: the Cholesky factor of the narrative terms (intercept, covariance, slope) and the SD of each crossed term,
# all over the residual SD.
starts <- function(model, ratings) {
  narrative <- list(c(1, 0, 1), c(.1, 0, .1), c(1, -.5, .05), c(.01, .01, .01), c(0, 0, .5))
  shape <- names(lFormula(model, ratings)$reTrms$cnms)
  lapply(narrative, function(theta) {
    unlist(lapply(shape, function(term) if (term == "narrative") theta else .5 * max(theta)))
  })
}

best_fit <- function(model, ratings, name) {
  best <- NULL
  criteria <- c()
  for (optimizer in names(controls)) {
    for (start in starts(model, ratings)) {
      fit <- suppressWarnings(lme4::lmer(model, ratings, REML = TRUE, control = controls[[optimizer]], start = start))
      criteria <- c(criteria, REMLcrit(fit))
      if (is.null(best) || REMLcrit(fit) < REMLcrit(best)) best <- fit
    }
  }
  polished <- polish(best, model, ratings)
  message(sprintf("%-24s optimizers differ by %.1e, polishing %+.1e, then gradient %.1e", name,
    diff(range(criteria)), REMLcrit(polished$fit) - min(criteria), polished$gradient))
  polished$fit
}

# Optimizers that look at the criterion alone stop where its rounding hides the slope, some 1e-6 of theta away;
# Newton steps do not.
polish <- function(fit, model, ratings) {
  criterion <- lme4::lmer(model, ratings, REML = TRUE, devFunOnly = TRUE)
  theta <- getME(fit, "theta")
  # The criterion is even in a term with a lower bound of 0, so rounding leaves such a term a little above it.
  for (i in which(getME(fit, "lower") == 0 & theta < 1e-3)) {
    on_bound <- replace(theta, i, 0)
    if (criterion(on_bound) < criterion(theta) + 1e-7) theta <- on_bound
  }
  free <- !(getME(fit, "lower") == 0 & theta == 0)
  along <- function(x) criterion(replace(theta, free, x))
  for (step in 1:4) {
    theta[free] <- theta[free] - solve(numDeriv::hessian(along, theta[free]), numDeriv::grad(along, theta[free]))
  }
  # By do.call, so that the fit carries its own table and lmerTest can build its criterion again.
  as_is <- do.call(lmerControl, c(quiet, list(optimizer = NULL)))
  list(
    fit = do.call(lme4::lmer, list(model, ratings, REML = TRUE, control = as_is, start = theta)),
    gradient = max(abs(numDeriv::grad(along, theta[free])))
  )
}

answer <- function(scenario, model_name) {
  ratings <- read.csv(file.path(folder, paste0(scenario, ".csv")), stringsAsFactors = TRUE)
  ratings$narrative <- factor(ratings$narrative)
  fit <- best_fit(models[[model_name]], ratings, paste(scenario, model_name))
  tested <- summary(as_lmerModLmerTest(fit))$coefficients["in_group", ]
  narrative <- VarCorr(fit)$narrative
  variance <- function(term) if (term %in% names(VarCorr(fit))) VarCorr(fit)[[term]][1, 1] else NA
  data.frame(
    scenario = scenario, model = model_name, n_narratives = nlevels(ratings$narrative), n_ratings = nrow(ratings),
    delta = fixef(fit)[["in_group"]], se = tested[["Std. Error"]], df = tested[["df"]],
    criterion = REMLcrit(fit), var_intercept = narrative[1, 1], cov_intercept_slope = narrative[1, 2],
    var_slope = narrative[2, 2], var_residual = sigma(fit)^2, var_perceiver = variance("perceiver"),
    var_experiencer = variance("experiencer"), singular = as.integer(isSingular(fit))
  )
}

scenarios <- setdiff(sub("\\.csv$", "", list.files(folder, "\\.csv$")), c("lme4", "versions"))
answers <- do.call(rbind, lapply(sort(scenarios, method = "radix"), function(scenario) {
  do.call(rbind, lapply(names(models), function(model) answer(scenario, model)))
}))
digits <- sapply(answers, is.double)
answers[digits] <- lapply(answers[digits], function(x) ifelse(is.na(x), "", sprintf("%.17g", x)))
write.csv(answers, file.path(folder, "lme4.csv"), row.names = FALSE, quote = FALSE)

packages <- c("lme4", "lmerTest", "numDeriv", "Matrix")
versions <- data.frame(
  package = c("R", packages),
  version = c(as.character(getRversion()), sapply(packages, function(package) as.character(packageVersion(package))))
)
write.csv(versions, file.path(folder, "versions.csv"), row.names = FALSE, quote = FALSE)
