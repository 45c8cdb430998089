"""Distributions of `scipy.stats` for traced arrays, tensors and plain arrays, and numbers that sum up samples.

    >>> import numpy as np
    >>> import adjit as aj
    >>> import adjit.scipy.stats as stats
    >>> data = np.array([0.5, 1.5, 1.0])
    >>> loss = lambda mean: -np.sum(stats.norm.logpdf(data, loc=mean, scale=0.5))
    >>> aj.grad(loss)(0.0)
    np.float64(-12.0)
    >>> float(stats.gamma(2.0, scale=3.0).cdf(1.0).round(6))
    0.044625

`pdf`, `logpdf` (of whole numbers `pmf`, `logpmf`), `cdf`, `logcdf`, `sf`, `logsf`, `ppf`, `isf`, `mean`, `var`, `std` and `entropy`, with
SciPy's parameters, and SciPy's values at the edges, outside of the support and for bad parameters. What has no closed form raises
`UnsupportedError`; a derivative without one, such as that of `ncx2.cdf` in its degrees of freedom, `NonDifferentiableError`.
Random numbers are drawn with `adjit.random`. SciPy is needed for the functions of `scipy.special` that it computes (`docs/scipy.md`).
"""

from __future__ import annotations

from typing import Any

from adjit.scipy.mirror import without_rule
from adjit.scipy.stats import discrete, on_an_interval, on_the_line, positive, transformed, weibull_and_pareto
from adjit.scipy.stats.correlation import linregress, pearsonr, pointbiserialr, rankdata, spearmanr
from adjit.scipy.stats.distribution import Distribution
from adjit.scipy.stats.further_summaries import (
    describe,
    differential_entropy,
    directional_stats,
    kstat,
    kstatvar,
    scoreatpercentile,
    tmax,
    tmean,
    tmin,
    tsem,
    tstd,
    tvar,
)
from adjit.scipy.stats.hypotheses import (
    bartlett,
    chisquare,
    f_oneway,
    jarque_bera,
    ks_1samp,
    kstest,
    kurtosistest,
    levene,
    normaltest,
    power_divergence,
    skewtest,
    ttest_1samp,
    ttest_ind,
    ttest_ind_from_stats,
    ttest_rel,
)
from adjit.scipy.stats.kernels import gaussian_kde
from adjit.scipy.stats.multivariate import (
    dirichlet,
    dirichlet_multinomial,
    multinomial,
    multivariate_normal,
    multivariate_t,
    vonmises_fisher,
)
from adjit.scipy.stats.of_matrices import invwishart, matrix_normal, wishart
from adjit.scipy.stats.summaries import (
    boxcox,
    boxcox_llf,
    circmean,
    circstd,
    circvar,
    energy_distance,
    entropy,
    gmean,
    gstd,
    gzscore,
    hmean,
    iqr,
    kurtosis,
    median_abs_deviation,
    moment,
    pmean,
    sem,
    skew,
    trim_mean,
    variation,
    wasserstein_distance,
    yeojohnson,
    yeojohnson_llf,
    zmap,
    zscore,
)

_CLASSES: dict[str, type[Distribution]] = {
    "arcsine": on_an_interval.ArcSine, "bernoulli": discrete.Bernoulli, "beta": on_an_interval.Beta, "betabinom": discrete.BetaBinom,
    "betaprime": positive.BetaPrime, "binom": discrete.Binom, "burr12": weibull_and_pareto.Burr12, "cauchy": on_the_line.Cauchy, "chi":
    positive.Chi, "chi2": positive.Chi2, "dlaplace": discrete.DLaplace, "erlang": positive.Gamma, "expon": positive.Expon, "exponnorm":
    on_the_line.ExponNorm, "exponweib": positive.ExponWeib, "f": positive.FisherF, "fisk": weibull_and_pareto.Fisk, "gamma": positive.Gamma,
    "genextreme": on_the_line.GenExtreme, "gengamma": positive.GenGamma, "gennorm": on_the_line.GenNorm, "genpareto":
    weibull_and_pareto.GenPareto, "geom": discrete.Geom, "gompertz": positive.Gompertz, "gumbel_l": on_the_line.GumbelL, "gumbel_r":
    on_the_line.GumbelR, "halfcauchy": positive.HalfCauchy, "halflogistic": positive.HalfLogistic, "halfnorm": positive.HalfNorm,
    "hypergeom": discrete.HyperGeom, "hypsecant": on_the_line.HypSecant, "invgamma": positive.InvGamma, "invgauss": positive.InvGauss,
    "invweibull": weibull_and_pareto.InvWeibull, "johnsonsb": on_an_interval.JohnsonSB, "johnsonsu": on_the_line.JohnsonSU, "laplace":
    on_the_line.Laplace, "laplace_asymmetric": on_the_line.LaplaceAsymmetric, "levy": positive.Levy, "loggamma": on_the_line.LogGamma,
    "logistic": on_the_line.Logistic, "lognorm": positive.LogNorm, "logser": discrete.LogSer, "loguniform": on_an_interval.LogUniform,
    "lomax": weibull_and_pareto.Lomax, "maxwell": positive.Maxwell, "moyal": on_the_line.Moyal, "nakagami": positive.Nakagami, "nbinom":
    discrete.NegativeBinom, "ncx2": positive.NonCentralChi2, "norm": on_the_line.Norm, "pareto": weibull_and_pareto.Pareto, "planck":
    discrete.Planck, "poisson": discrete.Poisson, "powerlaw": on_an_interval.PowerLaw, "randint": discrete.RandInt, "rayleigh":
    positive.Rayleigh, "reciprocal": on_an_interval.LogUniform, "semicircular": on_an_interval.SemiCircular, "skewnorm":
    on_the_line.SkewNorm, "t": on_the_line.StudentT, "triang": on_an_interval.Triang, "truncexpon": on_an_interval.TruncExpon, "truncnorm":
    on_an_interval.TruncNorm, "uniform": on_an_interval.Uniform, "vonmises": on_the_line.VonMises, "wald": positive.Wald, "weibull_max":
    weibull_and_pareto.WeibullMax, "weibull_min": weibull_and_pareto.WeibullMin, "zipf": discrete.Zipf,
    "gibrat": transformed.Gibrat, "foldnorm": transformed.FoldNorm, "foldcauchy": transformed.FoldCauchy,
    "rice": transformed.Rice, "dgamma": transformed.DoubleGamma, "dweibull": transformed.DoubleWeibull,
    "genlogistic": transformed.GenLogistic, "loglaplace": transformed.LogLaplace, "bradford": transformed.Bradford,
    "burr": transformed.Burr, "mielke": transformed.Mielke, "exponpow": transformed.ExponPow,
    "fatiguelife": transformed.FatigueLife, "powernorm": transformed.PowerNorm, "skewcauchy": transformed.SkewCauchy,
    "anglit": transformed.Anglit, "halfgennorm": transformed.HalfGenNorm, "kappa3": transformed.Kappa3,
    "truncpareto": transformed.TruncPareto,
}
globals().update({name: make(name) for name, make in _CLASSES.items()})

__all__ = [
    *sorted(_CLASSES),
    "bartlett", "boxcox", "boxcox_llf", "chisquare", "circmean", "circstd", "circvar", "describe", "differential_entropy",
    "directional_stats", "dirichlet", "dirichlet_multinomial", "energy_distance", "entropy", "f_oneway", "gaussian_kde", "gmean",
    "gstd", "gzscore", "hmean", "invwishart", "iqr", "jarque_bera", "ks_1samp", "kstat", "kstatvar", "kstest", "kurtosis",
    "kurtosistest", "levene", "linregress", "matrix_normal", "median_abs_deviation", "moment", "multinomial", "multivariate_normal",
    "multivariate_t", "normaltest", "pearsonr", "pmean", "pointbiserialr", "power_divergence", "rankdata", "scoreatpercentile", "sem",
    "skew", "skewtest", "spearmanr", "tmax", "tmean", "tmin", "trim_mean", "tsem", "tstd", "ttest_1samp", "ttest_ind",
    "ttest_ind_from_stats", "ttest_rel", "tvar", "variation", "vonmises_fisher", "wasserstein_distance", "wishart", "yeojohnson",
    "yeojohnson_llf", "zmap", "zscore",
]

_others = without_rule("stats", __all__)


def __getattr__(name: str) -> Any:
    """Return what else SciPy's module has under this name, for plain arrays."""
    return _others(name)
