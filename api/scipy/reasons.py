"""Why functions of SciPy have no rule for traced arrays: part of the error's message, and of `docs/scipy.md`."""

from __future__ import annotations

DESIGN = "it designs or converts filters and systems, from plain numbers"
MADE = "it makes constants from plain numbers"
CONTENT = "values decide on the size of the result, or on which elements there are"
CALLS = ("it calls a Python function until it is content; `as_callable` of a compiled function gives it a C function, `aj.grad` the "
         "derivative")
LABELS = "labels and whole numbers have no derivative"
RANKS = "a test of a hypothesis, by ranks, counts or tables of a distribution"
FITS = "it searches for what fits best; minimise a compiled `aj.value_and_grad` instead"
RANDOM = "random numbers are drawn with `adjit.random`"
CHECKS = "it answers a question about plain arrays"
PLOTS = "it draws a picture"
SCATTERED = "scattered points are triangulated or searched through"
LOWER = "it gives access to a library of C or Fortran"
ABSENT = "a distribution that `adjit.scipy.stats` does not have"
NOT_YET = "not supported"

_ROOTS = "adjit.solve.root finds roots as part of the program"
_MINIMA = "adjit.solve.bfgs, newton and lbfgsb minimise as part of the program, with derivatives of the minimum"
_INTEGRALS = "adjit.scipy.integrate.fixed_quad takes such functions: Gauss's rule, n points"
_EQUATIONS = "adjit.ode.solve_ivp solves initial value problems as part of the program"
_FITS = "adjit.solve.lm fits as part of the program, with derivatives of the solution"
_LIKELIHOOD = "minimise -np.sum(logpdf) of the data by adjit.solve.bfgs, or by SciPy's minimize with aj.value_and_grad and jac=True"
_DRAWS = "draw numbers with adjit.random from a key, and transform them: loc + scale * normal(key, shape), or ppf of uniform(key, shape)"

INSTEAD = {
    **dict.fromkeys(("quad", "quad_vec", "dblquad", "tplquad", "nquad", "cubature", "tanhsinh"), _INTEGRALS),
    **dict.fromkeys(("odeint", "solve_ivp"), _EQUATIONS), **dict.fromkeys(("minimize", "minimize_scalar", "fmin", "fmin_bfgs"), _MINIMA),
    **dict.fromkeys(("root", "root_scalar", "fsolve", "brentq", "brenth", "bisect", "ridder", "newton", "toms748"), _ROOTS),
    **dict.fromkeys(("curve_fit", "least_squares", "leastsq"), _FITS),
    "fixed_point": "adjit.solve.fixed_point iterates as part of the program",
    "rvs": _DRAWS, "roots": _ROOTS, "solve": _ROOTS, **dict.fromkeys(("fit", "fit_loc_scale"), _LIKELIHOOD), "expect": _INTEGRALS,
}
"""What to call in place of a function that calls a Python function, where the program needs its result within."""

REMEDIES = {ABSENT: "write its density in NumPy, or call it by aj.pure_callback"}
"""What to do where all names with one reason have the same remedy."""

METHODS = {
    "rvs": RANDOM, **dict.fromkeys(("fit", "fit_loc_scale"), "it searches for the parameters that fit best"),
    "expect": "it calls a Python function until it is content", "roots": CONTENT, "solve": CONTENT,
    **dict.fromkeys(("cdf", "logcdf"), "it has no closed form, and SciPy integrates it by random points"),
}
"""Why methods of distributions and splines take plain arrays alone."""

PARTS = {
    "sparse.csgraph": "graphs are of plain numbers: keep the edges of the path or tree that SciPy finds, and add up their traced weights",
    "sparse": "sparse arrays of traced elements are made at once, coo_matrix((values, (rows, columns))), and have products, sums, slices, "
              "formats and systems (docs/scipy.md); A.toarray() is the dense matrix",
    "spatial.transform": "Rotation takes traced vectors, angles and quaternions; Slerp, RotationSpline and RigidTransform hold plain "
                         "numbers",
}
"""What to do instead of using parts of SciPy that have classes of their own."""

_TEXT = {
    "linalg": {
        MADE: "dft hadamard helmert hilbert invhilbert "
              "invpascal pascal ",
        CHECKS: "bandwidth ishermitian issymmetric",
        LOWER: "find_best_blas_type get_blas_funcs get_lapack_funcs",
        RANDOM: "clarkson_woodruff_transform",
        CONTENT: "null_space orth",
        CALLS: "funm",
        "triangular forms are unique up to turns of vectors alone; `eig`, `qr`, `solve_sylvester` and `sqrtm` have rules":
            "cdf2rdf cossin hessenberg ordqz qz rsf2csf schur",
        "values decide which pivots there are; `cholesky`, `lu` and `eigh` have rules": "ldl",
        "a factor updated in place of one made anew; `qr` has a rule": "qr_delete qr_insert qr_update",
        "it is a step of the solution of other problems": "expm_cond matrix_balance",
    },
    "integrate": {
        CALLS: "cubature dblquad nquad nsum odeint qmc_quad quad quad_vec solve_bvp solve_ivp tanhsinh tplquad",
        MADE: "lebedev_rule newton_cotes",
    },
    "signal": {
        DESIGN: "abcd_normalize band_stop_obj bessel besselap bilinear bilinear_zpk buttap butter buttord cheb1ap cheb1ord cheb2ap "
                "cheb2ord cheby1 cheby2 cont2discrete ellip ellipap ellipord findfreqs firls firwin firwin2 firwin_2d gammatone "
                "iircomb iirdesign iirfilter iirnotch iirpeak kaiser_atten kaiser_beta kaiserord "
                "lp2bp lp2bp_zpk lp2bs lp2bs_zpk lp2hp lp2hp_zpk lp2lp "
                "lp2lp_zpk minimum_phase normalize place_poles remez savgol_coeffs sos2tf sos2zpk ss2tf ss2zpk tf2sos tf2ss tf2zpk "
                "zpk2sos zpk2ss zpk2tf",
        "of systems that are plain numbers": "bode dbode dfreqresp dimpulse dlsim dstep freqresp freqs_zpk freqz_zpk "
                                             "impulse lsim step",
        MADE: "closest_STFT_dual_window correlation_lags czt_points gauss_spline get_window max_len_seq "
              "unit_impulse",
        CHECKS: "check_COLA check_NOLA choose_conv_method",
        CONTENT: "argrelextrema argrelmax argrelmin find_peaks find_peaks_cwt peak_prominences peak_widths unique_roots invres invresz "
                 "residue residuez",
        NOT_YET: "cspline1d cspline1d_eval cspline2d envelope "
                 "qspline1d qspline1d_eval qspline2d sepfir2d "
                 "spline_filter symiirorder1 symiirorder2 ",
    },
    "fft": {
        CHECKS: "next_fast_len prev_fast_len fhtoffset",
        "settings of SciPy's own": "set_backend skip_backend set_global_backend register_backend get_workers set_workers",
        NOT_YET: "fht ifht hfft2 hfftn ihfft2 ihfftn",
    },
    "optimize": {
        CALLS: "anderson approx_fprime basinhopping bisect bracket brent brenth brentq broyden1 broyden2 brute check_grad curve_fit "
               "diagbroyden differential_evolution direct dual_annealing excitingmixing fixed_point fmin fmin_bfgs fmin_cg fmin_cobyla "
               "fmin_l_bfgs_b fmin_ncg fmin_powell fmin_slsqp fmin_tnc fminbound fsolve golden least_squares leastsq line_search "
               "linearmixing minimize minimize_scalar newton newton_krylov ridder root root_scalar shgo toms748",
        FITS: "isotonic_regression linear_sum_assignment linprog lsq_linear milp nnls quadratic_assignment",
        CHECKS: "linprog_verbose_callback show_options",
        "`aj.hessian` and `aj.hvp` of `rosen`": "rosen_hess rosen_hess_prod",
    },
    "interpolate": {
        FITS: "bisplrep make_splprep make_splrep splprep generate_knots",
        CALLS: "approximate_taylor_polynomial",
        CONTENT: "sproot",
        "its object is made of plain numbers; BSpline and PPoly have rules": "bisplev insert pade",
        NOT_YET: "lagrange",
    },
    "ndimage": {
        LABELS: "binary_closing binary_dilation binary_erosion binary_fill_holes binary_hit_or_miss binary_opening binary_propagation "
                "distance_transform_bf distance_transform_cdt distance_transform_edt find_objects generate_binary_structure "
                "iterate_structure label value_indices watershed_ift histogram",
        CALLS: "generic_filter generic_filter1d generic_gradient_magnitude generic_laplace geometric_transform labeled_comprehension "
               "vectorized_filter",
        "of labelled regions: use NumPy's reductions with `where=`": "center_of_mass extrema maximum maximum_position mean median minimum "
                                                                    "minimum_position standard_deviation sum sum_labels variance",
        NOT_YET: "black_tophat fourier_ellipsoid fourier_gaussian fourier_shift fourier_uniform grey_closing grey_dilation grey_erosion "
                 "grey_opening morphological_gradient morphological_laplace white_tophat",
    },
    "spatial": {
        PLOTS: "convex_hull_plot_2d delaunay_plot_2d voronoi_plot_2d",
        SCATTERED: "tsearch",
        "`distance.cdist` has a rule": "distance_matrix minkowski_distance minkowski_distance_p",
        NOT_YET: "geometric_slerp procrustes",
    },
    "spatial.distance": {
        CHECKS: "is_valid_dm is_valid_y num_obs_dm num_obs_y",
        CONTENT: "directed_hausdorff",
    },
    "special": {
        "settings of SciPy's own": "geterr seterr errstate",
        "orthogonal polynomials as objects; `eval_*` have rules": "legendre chebyt chebyu chebyc chebys jacobi laguerre genlaguerre "
                                                                  "hermite hermitenorm gegenbauer sh_legendre sh_chebyt sh_chebyu "
                                                                  "sh_jacobi",
        MADE: "ai_zeros bei_zeros beip_zeros ber_zeros bernoulli berp_zeros bi_zeros erf_zeros euler fresnel_zeros fresnelc_zeros "
              "fresnels_zeros jn_zeros jnjnp_zeros jnp_zeros jnyn_zeros kei_zeros keip_zeros kelvin_zeros ker_zeros kerp_zeros "
              "mathieu_even_coef mathieu_odd_coef obl_cv_seq pro_cv_seq y0_zeros y1_zeros y1p_zeros yn_zeros ynp_zeros roots_legendre "
              "roots_chebyt roots_chebyu roots_chebyc roots_chebys roots_jacobi roots_laguerre roots_genlaguerre roots_hermite "
              "roots_hermitenorm roots_gegenbauer roots_sh_legendre roots_sh_chebyt roots_sh_chebyu roots_sh_jacobi p_roots t_roots "
              "u_roots c_roots s_roots j_roots l_roots la_roots h_roots he_roots cg_roots ps_roots ts_roots us_roots js_roots "
              "factorial2 factorialk stirling2",
        "its parts are `ber`, `bei`, `ker`, `kei` and their derivatives": "kelvin",
        "`np.rint` has a rule": "round",
        NOT_YET: "mathieu_a mathieu_b mathieu_cem mathieu_modcem1 mathieu_modcem2 mathieu_modsem1 mathieu_modsem2 "
                 "mathieu_sem modfresnelm modfresnelp obl_ang1 obl_ang1_cv obl_cv obl_rad1 obl_rad1_cv obl_rad2 obl_rad2_cv pro_ang1 "
                 "pro_ang1_cv pro_cv pro_rad1 pro_rad1_cv pro_rad2 pro_rad2_cv lmbda lqmn lqn pbdn_seq pbdv_seq pbvv_seq riccati_jn "
                 "riccati_yn assoc_legendre_p assoc_legendre_p_all legendre_p legendre_p_all sph_harm_y sph_harm_y_all sph_legendre_p "
                 "sph_legendre_p_all ellip_harm ellip_harm_2 ellip_normal",
    },
    "stats": {
        RANKS: "alexandergovern anderson anderson_ksamp ansari barnard_exact binomtest boschloo_exact brunnermunzel bws_test chatterjeexi "
               "chi2_contingency combine_pvalues cramervonmises cramervonmises_2samp dunnett epps_singleton_2samp false_discovery_control "
               "fisher_exact fligner friedmanchisquare goodness_of_fit kendalltau kruskal ks_2samp logrank mannwhitneyu median_test "
               "monte_carlo_test mood multiscale_graphcorr page_trend_test permutation_test poisson_means_test power quantile_test "
               "ranksums shapiro somersd spearmanrho tukey_hsd weightedtau wilcoxon tiecorrect percentileofscore",
        FITS: "bayes_mvs boxcox_normmax expectile fit mvsdist ppcc_max siegelslopes theilslopes yeojohnson_normmax",
        PLOTS: "boxcox_normplot ppcc_plot probplot yeojohnson_normplot",
        RANDOM: "bootstrap ortho_group random_correlation random_table sobol_indices special_ortho_group uniform_direction unitary_group",
        CONTENT: "binned_statistic binned_statistic_2d binned_statistic_dd cumfreq ecdf mode relfreq sigmaclip trim1 trimboth",
        "of distributions as objects": "abs exp log make_distribution order_statistic truncate",
        ABSENT: "alpha argus betanbinom boltzmann cosine "
            "crystalball dpareto_lognorm "
            "gausshyper genexpon genhalflogistic genhyperbolic geninvgauss irwinhall jf_skew_t "
            "kappa4 ksone kstwo kstwobign landau levy_l levy_stable matrix_t "
            "multivariate_hypergeom ncf nchypergeom_fisher nchypergeom_wallenius nct nhypergeom normal_inverse_gamma "
            "norminvgauss pearson3 poisson_binom powerlognorm rdist recipinvgauss rel_breitwigner skellam "
            "studentized_range truncweibull_min tukeylambda vonmises_line wrapcauchy yulesimon zipfian",
        NOT_YET: "lmoment obrientransform quantile trapezoid wasserstein_distance_nd",
    },
}

REASONS = {module: {name: reason for reason, names in reasons.items() for name in names.split()} for module, reasons in _TEXT.items()}
"""Reason by module and name."""
