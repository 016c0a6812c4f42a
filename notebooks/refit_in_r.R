# Refits the ratings of a run in R, by least squares within narratives and by lme4.
#
#   python -m audit export RUN_DIR form=csv to=FOLDER
#   Rscript refit_in_r.R FOLDER/ratings.csv DIMENSION OUT.csv
#
# Needs lme4 and lmerTest. OUT.csv has a row for each fit: delta in points, its standard error, degrees of freedom, the
# ends of its 95% interval and p.
#
# The same ratings are in RUN_DIR/ratings.parquet: arrow::read_parquet() reads it in place of read.csv() below.

arguments <- commandArgs(trailingOnly = TRUE)
if (length(arguments) != 3) stop("give three arguments: ratings.csv, the dimension, the file to write")

ratings <- read.csv(arguments[1], na.strings = "", encoding = "UTF-8", stringsAsFactors = FALSE)
own <- ratings[ratings$dimension == arguments[2], ]
if (nrow(own) == 0) stop("there is no dimension ", arguments[2], "; there are: ", toString(unique(ratings$dimension)))

# A refusal is missing, never 0. Pairs with a baseline have no in_group, and are outside the gap.
own <- own[own$status == "rated" & !is.na(own$in_group), ]
own$in_group <- as.integer(own$in_group %in% c("True", "TRUE", TRUE))
# A prompt in several wordings counts once, by the mean of its ratings.
own <- aggregate(intensity ~ narrative_id + perceiver + experiencer + in_group, data = own, FUN = mean)
if (length(unique(own$in_group)) < 2) stop("there are no in-group ratings, or no others")

row_of <- function(fit, delta, se, df) {
  half <- qt(.975, df) * se
  data.frame(fit = fit, delta = delta, se = se, df = df, ci_low = delta - half, ci_high = delta + half,
             p = 2 * pt(-abs(delta / se), df), n_ratings = nrow(own))
}

# 1. Each narrative's own gap: the in-group coefficient, beside each perceiver and each experiencer. Their mean is the
#    headline's estimate where no rating is missing. Where some are, the headline weighs narratives, and this does not.
gap_of <- function(one) unname(coef(lm(intensity ~ in_group + perceiver + experiencer, data = one))["in_group"])
gaps <- vapply(split(own, own$narrative_id), gap_of, numeric(1))
gaps <- gaps[!is.na(gaps)]
within <- row_of("within narratives", mean(gaps), sd(gaps) / sqrt(length(gaps)), length(gaps) - 1)

# 2. A mixed model of all ratings: a random intercept and a random gap for each narrative. It takes for noise how a
#    narrative moves single perceivers and experiencers, so its standard error can be much larger than that of 1.
fit <- suppressMessages(lmerTest::lmer(
  intensity ~ in_group + perceiver + experiencer + (1 + in_group | narrative_id),
  data = own, REML = TRUE
))
found <- coef(summary(fit))["in_group", ]
mixed <- row_of("lme4", found[["Estimate"]], found[["Std. Error"]], found[["df"]])

write.csv(rbind(within, mixed), arguments[3], row.names = FALSE)
