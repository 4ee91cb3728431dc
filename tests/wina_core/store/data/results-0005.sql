-- A database of schema 0005, written by the program of commit 4cd3b83 with invented numbers (test_store_meanings.py).
BEGIN TRANSACTION;
CREATE TABLE calibrations (
	id INTEGER NOT NULL, 
	model_id INTEGER NOT NULL, 
	rotation_hash TEXT NOT NULL, 
	method_label TEXT NOT NULL, 
	hash TEXT NOT NULL, 
	spec TEXT NOT NULL, 
	"key" TEXT NOT NULL, 
	tokens INTEGER NOT NULL, 
	seconds DOUBLE NOT NULL, 
	recorded DOUBLE NOT NULL, 
	CONSTRAINT pk_calibrations PRIMARY KEY (id), 
	CONSTRAINT uq_calibrations_model_id_rotation_hash_method_label_hash UNIQUE (model_id, rotation_hash, method_label, hash), 
	CONSTRAINT fk_calibrations_model_id FOREIGN KEY(model_id) REFERENCES models (id)
);
INSERT INTO "calibrations" VALUES(1,1,'e7ec68dd6d31b891','scap','a9d5f6d002d956b8','{"schema_version":1,"text":{"schema_version":1,"source":"demo:calibration","tokens":49152,"sequence":512,"fingerprint":""}}','0123456789abcdef',1024,2.0,1.79537577077398586276e+09);
INSERT INTO "calibrations" VALUES(2,1,'e7ec68dd6d31b891','scap (shared masks)','a9d5f6d002d956b8','{"schema_version":1,"text":{"schema_version":1,"source":"demo:calibration","tokens":49152,"sequence":512,"fingerprint":""}}','0123456789abcdef',1024,2.0,1.79537577078207182881e+09);
INSERT INTO "calibrations" VALUES(3,1,'e7ec68dd6d31b891','rsparse (as released)','a9d5f6d002d956b8','{"schema_version":1,"text":{"schema_version":1,"source":"demo:calibration","tokens":49152,"sequence":512,"fingerprint":""}}','0123456789abcdef',1024,2.0,1.79537577078966832156e+09);
INSERT INTO "calibrations" VALUES(4,1,'e7ec68dd6d31b891','wina','a9d5f6d002d956b8','{"schema_version":1,"text":{"schema_version":1,"source":"demo:calibration","tokens":49152,"sequence":512,"fingerprint":""}}','0123456789abcdef',1024,2.0,1.79537577079359173771e+09);
INSERT INTO "calibrations" VALUES(5,1,'e7ec68dd6d31b891','wina (as released)','a9d5f6d002d956b8','{"schema_version":1,"text":{"schema_version":1,"source":"demo:calibration","tokens":49152,"sequence":512,"fingerprint":""}}','0123456789abcdef',1024,2.0,1.79537577079754137989e+09);
INSERT INTO "calibrations" VALUES(6,1,'e7ec68dd6d31b891','scap','10db3c9d9bc8933f','{"schema_version":1,"divergence_text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""}}','0123456789abcdef',1024,2.0,1.79537577080152177815e+09);
INSERT INTO "calibrations" VALUES(7,2,'e4209ab46042ce8d','wina','a9d5f6d002d956b8','{"schema_version":1,"text":{"schema_version":1,"source":"demo:calibration","tokens":49152,"sequence":512,"fingerprint":""}}','0123456789abcdef',1024,2.0,1.79537577080552148822e+09);
INSERT INTO "calibrations" VALUES(8,2,'a9d5f6d002d956b8','wina','a9d5f6d002d956b8','{"schema_version":1,"text":{"schema_version":1,"source":"demo:calibration","tokens":49152,"sequence":512,"fingerprint":""}}','0123456789abcdef',1024,2.0,1.79537577081386876109e+09);
CREATE TABLE decoding (
	id INTEGER NOT NULL, 
	hash TEXT NOT NULL, 
	environment_id INTEGER NOT NULL, 
	model_id INTEGER NOT NULL, 
	spec TEXT NOT NULL, 
	rotation_label TEXT NOT NULL, 
	method_label TEXT NOT NULL, 
	selection TEXT NOT NULL, 
	sparsity DOUBLE NOT NULL, 
	measured_sparsity DOUBLE NOT NULL, 
	prompt_tokens INTEGER NOT NULL, 
	new_tokens INTEGER NOT NULL, 
	repetitions INTEGER NOT NULL, 
	tokens_per_second DOUBLE NOT NULL, 
	p10 DOUBLE NOT NULL, 
	p90 DOUBLE NOT NULL, 
	dense_tokens_per_second DOUBLE NOT NULL, 
	speedup DOUBLE NOT NULL, 
	recorded DOUBLE NOT NULL, 
	CONSTRAINT pk_decoding PRIMARY KEY (id), 
	CONSTRAINT uq_decoding_hash_environment_id UNIQUE (hash, environment_id), 
	CONSTRAINT fk_decoding_environment_id FOREIGN KEY(environment_id) REFERENCES environments (id), 
	CONSTRAINT fk_decoding_model_id FOREIGN KEY(model_id) REFERENCES models (id)
);
INSERT INTO "decoding" VALUES(1,'c2bdbfe724cd23c9',1,1,'{"schema_version":1,"model":{"schema_version":1,"location":"org/llama","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"threshold","masks":"separate","correction":"none","rho":null},"calibration":{"schema_version":1,"text":{"schema_version":1,"source":"demo:calibration","tokens":49152,"sequence":512,"fingerprint":""}},"prompt_tokens":64,"new_tokens":64,"repetitions":5,"sparsity":0.5}','none','wina','threshold',0.5,0.49,64,64,5,30.0,28.0,31.0,20.0,1.5,1.79537577083714914322e+09);
INSERT INTO "decoding" VALUES(2,'dbd8104228fcda92',1,1,'{"schema_version":1,"model":{"schema_version":1,"location":"org/llama","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"calibration":null,"prompt_tokens":64,"new_tokens":64,"repetitions":5,"sparsity":0.5}','none','wina','topk',0.5,0.49,64,64,5,30.0,28.0,31.0,20.0,1.5,1.7953757708441927433e+09);
INSERT INTO "decoding" VALUES(3,'dff7d0098309753b',1,1,'{"schema_version":1,"model":{"schema_version":1,"location":"org/llama","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"rsparse","variant":"as_released","selection":"topk","masks":"separate","correction":"none","rho":null},"calibration":null,"prompt_tokens":64,"new_tokens":64,"repetitions":5,"sparsity":0.5}','none','rsparse (as released)','topk',0.5,0.49,64,64,5,30.0,28.0,31.0,20.0,1.5,1.79537577084900593755e+09);
INSERT INTO "decoding" VALUES(4,'0f4969975f451e00',1,1,'{"schema_version":1,"model":{"schema_version":1,"location":"org/llama","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"scap","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"calibration":{"schema_version":1,"text":{"schema_version":1,"source":"demo:calibration","tokens":49152,"sequence":512,"fingerprint":""}},"prompt_tokens":64,"new_tokens":64,"repetitions":5,"sparsity":0.5}','none','scap','topk',0.5,0.49,64,64,5,30.0,28.0,31.0,20.0,1.5,1.79537577085300254818e+09);
INSERT INTO "decoding" VALUES(5,'d4e113d7fe73d066',1,2,'{"schema_version":1,"model":{"schema_version":1,"location":"org/phi","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"per_site","attention_basis":["k"],"mlp_basis":["gate"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"calibration":null,"prompt_tokens":64,"new_tokens":64,"repetitions":5,"sparsity":0.5}','per_site (k, gate)','wina','topk',0.5,0.49,64,64,5,30.0,28.0,31.0,20.0,1.5,1.79537577085701370235e+09);
CREATE TABLE environments (
	id INTEGER NOT NULL, 
	hash TEXT NOT NULL, 
	device TEXT NOT NULL, 
	hardware TEXT NOT NULL, 
	versions TEXT NOT NULL, 
	CONSTRAINT pk_environments PRIMARY KEY (id), 
	CONSTRAINT uq_environments_hash UNIQUE (hash)
);
INSERT INTO "environments" VALUES(1,'b420553b39edea35','cpu','a processor','{"torch": "2.13.0"}');
CREATE TABLE latency (
	id INTEGER NOT NULL, 
	hash TEXT NOT NULL, 
	environment_id INTEGER NOT NULL, 
	spec TEXT NOT NULL, 
	op TEXT NOT NULL, 
	outputs INTEGER NOT NULL, 
	inputs INTEGER NOT NULL, 
	batch INTEGER NOT NULL, 
	dtype TEXT NOT NULL, 
	method TEXT NOT NULL, 
	selection TEXT NOT NULL, 
	sparsity DOUBLE NOT NULL, 
	backend TEXT NOT NULL, 
	repetitions INTEGER NOT NULL, 
	measured_sparsity DOUBLE NOT NULL, 
	read_bytes DOUBLE NOT NULL, 
	median_ms DOUBLE NOT NULL, 
	p10_ms DOUBLE NOT NULL, 
	p90_ms DOUBLE NOT NULL, 
	dense_ms DOUBLE NOT NULL, 
	speedup DOUBLE NOT NULL, 
	gigabytes_per_second DOUBLE NOT NULL, 
	bandwidth DOUBLE NOT NULL, 
	roofline DOUBLE NOT NULL, 
	recorded DOUBLE NOT NULL, 
	CONSTRAINT pk_latency PRIMARY KEY (id), 
	CONSTRAINT uq_latency_hash_environment_id UNIQUE (hash, environment_id), 
	CONSTRAINT fk_latency_environment_id FOREIGN KEY(environment_id) REFERENCES environments (id)
);
INSERT INTO "latency" VALUES(1,'99a744c585d9c38d',1,'{"schema_version":1,"outputs":64,"inputs":48,"batch":1,"dtype":"bfloat16","method":"wina","selection":"threshold","sparsity":0.0,"backend":"reference","repetitions":20}','down',64,48,1,'bfloat16','wina','threshold',0.0,'reference',20,0.5,8000000.0,2.0,1.5,3.0,3.0,1.5,4.0,8.0,0.5,1.79537577086120915415e+09);
CREATE TABLE layer_stats (
	id INTEGER NOT NULL, 
	unit_id INTEGER, 
	calibration_id INTEGER, 
	rotation_id INTEGER, 
	layer INTEGER NOT NULL, 
	projection TEXT NOT NULL, 
	metric TEXT NOT NULL, 
	x DOUBLE, 
	value DOUBLE, 
	CONSTRAINT pk_layer_stats PRIMARY KEY (id), 
	CONSTRAINT ck_layer_stats_one_owner CHECK ((CASE WHEN unit_id IS NULL THEN 0 ELSE 1 END) + (CASE WHEN calibration_id IS NULL THEN 0 ELSE 1 END) + (CASE WHEN rotation_id IS NULL THEN 0 ELSE 1 END) = 1), 
	CONSTRAINT fk_layer_stats_unit_id FOREIGN KEY(unit_id) REFERENCES units (id) ON DELETE CASCADE, 
	CONSTRAINT fk_layer_stats_calibration_id FOREIGN KEY(calibration_id) REFERENCES calibrations (id) ON DELETE CASCADE, 
	CONSTRAINT fk_layer_stats_rotation_id FOREIGN KEY(rotation_id) REFERENCES rotations (id) ON DELETE CASCADE
);
INSERT INTO "layer_stats" VALUES(1,1,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(2,1,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(3,2,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(4,2,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(9,5,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(10,5,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(11,6,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(12,6,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(17,9,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(18,9,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(19,10,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(20,10,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(21,11,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(22,11,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(23,12,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(24,12,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(25,13,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(26,13,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(27,14,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(28,14,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(29,15,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(30,15,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(31,16,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(32,16,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(33,17,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(34,17,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(35,18,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(36,18,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(37,19,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(38,19,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(39,20,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(40,20,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(45,23,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(46,23,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(47,24,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(48,24,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(49,25,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(50,25,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(51,26,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(52,26,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(53,27,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(54,27,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(55,28,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(56,28,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(65,33,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(66,33,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(67,34,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(68,34,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(69,35,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(70,35,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(71,36,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(72,36,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(73,37,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(74,37,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(75,38,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(76,38,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(77,39,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(78,39,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(79,40,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(80,40,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(81,41,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(82,41,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(83,42,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(84,42,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(85,43,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(86,43,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(87,44,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(88,44,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(89,45,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(90,45,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(91,46,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(92,46,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(93,47,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(94,47,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(95,48,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(96,48,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(97,49,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(98,49,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(99,50,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(100,50,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(101,51,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(102,51,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(103,52,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(104,52,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(105,53,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(106,53,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(107,54,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(108,54,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(109,55,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(110,55,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(111,56,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(112,56,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(113,57,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(114,57,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(115,58,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(116,58,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(117,59,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(118,59,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(119,60,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(120,60,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(121,61,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(122,61,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(123,62,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(124,62,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(125,63,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(126,63,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(127,64,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(128,64,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(129,65,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(130,65,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(131,66,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(132,66,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(133,67,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(134,67,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(135,68,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(136,68,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(137,69,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(138,69,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(139,70,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(140,70,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(141,71,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(142,71,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(143,72,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(144,72,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(145,73,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(146,73,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(147,74,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(148,74,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(149,75,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(150,75,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(151,76,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(152,76,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(153,77,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(154,77,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(155,78,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(156,78,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(157,79,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(158,79,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(159,80,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(160,80,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(161,81,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(162,81,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(163,82,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(164,82,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(165,83,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(166,83,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(167,84,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(168,84,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(169,85,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(170,85,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(171,86,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(172,86,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(173,87,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(174,87,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(175,88,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(176,88,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(177,89,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(178,89,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(179,90,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(180,90,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(181,91,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(182,91,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(183,92,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(184,92,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(185,93,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(186,93,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(187,94,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(188,94,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(189,95,NULL,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(190,95,NULL,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(191,NULL,1,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(192,NULL,1,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(193,NULL,2,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(194,NULL,2,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(195,NULL,3,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(196,NULL,3,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(197,NULL,4,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(198,NULL,4,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(199,NULL,5,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(200,NULL,5,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(201,NULL,6,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(202,NULL,6,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(203,NULL,7,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(204,NULL,7,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(205,NULL,8,NULL,0,'q','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(206,NULL,8,NULL,0,'down','sparsity',NULL,0.5);
INSERT INTO "layer_stats" VALUES(207,NULL,NULL,1,0,'q','off_diagonal_energy',NULL,0.1);
INSERT INTO "layer_stats" VALUES(208,NULL,NULL,2,0,'q','off_diagonal_energy',NULL,0.1);
INSERT INTO "layer_stats" VALUES(209,NULL,NULL,3,0,'q','off_diagonal_energy',NULL,0.1);
CREATE TABLE measures (
	id INTEGER NOT NULL, 
	hash TEXT NOT NULL, 
	task TEXT NOT NULL, 
	metric TEXT NOT NULL, 
	n INTEGER, 
	higher_is_better BOOLEAN, 
	version TEXT, 
	num_fewshot INTEGER, 
	prompt_hash TEXT, 
	truncated INTEGER, 
	CONSTRAINT pk_measures PRIMARY KEY (id), 
	CONSTRAINT uq_measures_hash UNIQUE (hash)
);
INSERT INTO "measures" VALUES(1,'7adc26ff81e2ff9f','deviation','kl',400,1,'1.0',5,'0123456789abcdef',2);
INSERT INTO "measures" VALUES(2,'8a1ad40e4eb28211','choice','acc',400,1,'1.0',5,'0123456789abcdef',2);
CREATE TABLE metrics (
	id INTEGER NOT NULL, 
	unit_id INTEGER NOT NULL, 
	measure_id INTEGER NOT NULL, 
	value DOUBLE, 
	stderr DOUBLE, 
	CONSTRAINT pk_metrics PRIMARY KEY (id), 
	CONSTRAINT uq_metrics_unit_id_measure_id UNIQUE (unit_id, measure_id), 
	CONSTRAINT fk_metrics_unit_id FOREIGN KEY(unit_id) REFERENCES units (id) ON DELETE CASCADE, 
	CONSTRAINT fk_metrics_measure_id FOREIGN KEY(measure_id) REFERENCES measures (id)
);
INSERT INTO "metrics" VALUES(1,1,1,0.5,0.01);
INSERT INTO "metrics" VALUES(2,2,2,0.5,0.01);
INSERT INTO "metrics" VALUES(5,5,1,0.52,0.01);
INSERT INTO "metrics" VALUES(6,6,2,0.52,0.01);
INSERT INTO "metrics" VALUES(9,9,1,0.54,0.01);
INSERT INTO "metrics" VALUES(10,10,2,0.54,0.01);
INSERT INTO "metrics" VALUES(11,11,1,0.55,0.01);
INSERT INTO "metrics" VALUES(12,12,2,0.55,0.01);
INSERT INTO "metrics" VALUES(13,13,1,0.56,0.01);
INSERT INTO "metrics" VALUES(14,14,2,0.56,0.01);
INSERT INTO "metrics" VALUES(15,15,1,5.70000000000000062172e-01,0.01);
INSERT INTO "metrics" VALUES(16,16,2,5.70000000000000062172e-01,0.01);
INSERT INTO "metrics" VALUES(17,17,1,0.58,0.01);
INSERT INTO "metrics" VALUES(18,18,2,0.58,0.01);
INSERT INTO "metrics" VALUES(19,19,1,0.59,0.01);
INSERT INTO "metrics" VALUES(20,20,2,0.59,0.01);
INSERT INTO "metrics" VALUES(23,23,1,0.61,0.01);
INSERT INTO "metrics" VALUES(24,24,2,0.61,0.01);
INSERT INTO "metrics" VALUES(25,25,1,0.62,0.01);
INSERT INTO "metrics" VALUES(26,26,2,0.62,0.01);
INSERT INTO "metrics" VALUES(27,27,1,0.5,0.01);
INSERT INTO "metrics" VALUES(28,28,2,0.5,0.01);
INSERT INTO "metrics" VALUES(33,33,1,0.51,0.01);
INSERT INTO "metrics" VALUES(34,34,2,0.51,0.01);
INSERT INTO "metrics" VALUES(35,35,1,0.52,0.01);
INSERT INTO "metrics" VALUES(36,36,2,0.52,0.01);
INSERT INTO "metrics" VALUES(37,37,1,0.53,0.01);
INSERT INTO "metrics" VALUES(38,38,2,0.53,0.01);
INSERT INTO "metrics" VALUES(39,39,1,0.54,0.01);
INSERT INTO "metrics" VALUES(40,40,2,0.54,0.01);
INSERT INTO "metrics" VALUES(41,41,1,0.55,0.01);
INSERT INTO "metrics" VALUES(42,42,2,0.55,0.01);
INSERT INTO "metrics" VALUES(43,43,1,0.56,0.01);
INSERT INTO "metrics" VALUES(44,44,2,0.56,0.01);
INSERT INTO "metrics" VALUES(45,45,1,5.70000000000000062172e-01,0.01);
INSERT INTO "metrics" VALUES(46,46,2,5.70000000000000062172e-01,0.01);
INSERT INTO "metrics" VALUES(47,47,1,0.5,0.01);
INSERT INTO "metrics" VALUES(48,48,2,0.5,0.01);
INSERT INTO "metrics" VALUES(49,49,1,0.51,0.01);
INSERT INTO "metrics" VALUES(50,50,2,0.51,0.01);
INSERT INTO "metrics" VALUES(51,51,1,0.52,0.01);
INSERT INTO "metrics" VALUES(52,52,2,0.52,0.01);
INSERT INTO "metrics" VALUES(53,53,1,0.53,0.01);
INSERT INTO "metrics" VALUES(54,54,2,0.53,0.01);
INSERT INTO "metrics" VALUES(55,55,1,0.54,0.01);
INSERT INTO "metrics" VALUES(56,56,2,0.54,0.01);
INSERT INTO "metrics" VALUES(57,57,1,0.55,0.01);
INSERT INTO "metrics" VALUES(58,58,2,0.55,0.01);
INSERT INTO "metrics" VALUES(59,59,1,0.56,0.01);
INSERT INTO "metrics" VALUES(60,60,2,0.56,0.01);
INSERT INTO "metrics" VALUES(61,61,1,5.70000000000000062172e-01,0.01);
INSERT INTO "metrics" VALUES(62,62,2,5.70000000000000062172e-01,0.01);
INSERT INTO "metrics" VALUES(63,63,1,0.58,0.01);
INSERT INTO "metrics" VALUES(64,64,2,0.58,0.01);
INSERT INTO "metrics" VALUES(65,65,1,0.59,0.01);
INSERT INTO "metrics" VALUES(66,66,2,0.59,0.01);
INSERT INTO "metrics" VALUES(67,67,1,0.6,0.01);
INSERT INTO "metrics" VALUES(68,68,2,0.6,0.01);
INSERT INTO "metrics" VALUES(69,69,1,0.61,0.01);
INSERT INTO "metrics" VALUES(70,70,2,0.61,0.01);
INSERT INTO "metrics" VALUES(71,71,1,0.62,0.01);
INSERT INTO "metrics" VALUES(72,72,2,0.62,0.01);
INSERT INTO "metrics" VALUES(73,73,1,0.63,0.01);
INSERT INTO "metrics" VALUES(74,74,2,0.63,0.01);
INSERT INTO "metrics" VALUES(75,75,1,0.64,0.01);
INSERT INTO "metrics" VALUES(76,76,2,0.64,0.01);
INSERT INTO "metrics" VALUES(77,77,1,0.65,0.01);
INSERT INTO "metrics" VALUES(78,78,2,0.65,0.01);
INSERT INTO "metrics" VALUES(79,79,1,0.66,0.01);
INSERT INTO "metrics" VALUES(80,80,2,0.66,0.01);
INSERT INTO "metrics" VALUES(81,81,1,0.67,0.01);
INSERT INTO "metrics" VALUES(82,82,2,0.67,0.01);
INSERT INTO "metrics" VALUES(83,83,1,6.79999999999999937827e-01,0.01);
INSERT INTO "metrics" VALUES(84,84,2,6.79999999999999937827e-01,0.01);
INSERT INTO "metrics" VALUES(85,85,1,0.69,0.01);
INSERT INTO "metrics" VALUES(86,86,2,0.69,0.01);
INSERT INTO "metrics" VALUES(87,87,1,0.5,0.01);
INSERT INTO "metrics" VALUES(88,88,2,0.5,0.01);
INSERT INTO "metrics" VALUES(89,89,2,0.5,0.01);
INSERT INTO "metrics" VALUES(90,90,1,0.5,0.01);
INSERT INTO "metrics" VALUES(91,91,2,0.5,0.01);
INSERT INTO "metrics" VALUES(92,92,2,0.5,0.01);
INSERT INTO "metrics" VALUES(93,93,2,0.5,0.01);
INSERT INTO "metrics" VALUES(94,94,1,0.5,0.01);
INSERT INTO "metrics" VALUES(95,95,2,0.5,0.01);
CREATE TABLE models (
	id INTEGER NOT NULL, 
	hash TEXT NOT NULL, 
	label TEXT NOT NULL, 
	location TEXT NOT NULL, 
	spec TEXT NOT NULL, 
	summary TEXT, 
	opened DOUBLE, 
	CONSTRAINT pk_models PRIMARY KEY (id), 
	CONSTRAINT uq_models_hash UNIQUE (hash)
);
INSERT INTO "models" VALUES(1,'6bb408e9b8f2667c','llama','org/llama','{"schema_version":1,"location":"org/llama","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""}','{"location":"org/llama","fingerprint":"","architecture":"LlamaForCausalLM","family":"llama","layout":{"projections":["q","down"],"parameters":[[64,256],[64,256]]},"hidden_size":8,"intermediate_size":32,"heads":2,"kv_heads":1,"head_dim":4,"vocabulary":100,"context":128,"tied_embeddings":true,"dtype":"float32","parameters":5000000000,"gated_parameters":640,"memory_bytes":20000000000,"rotations":["none","global","per_layer","per_site"],"rotation_reason":"","chat_template":false,"shape":null,"quantization":null}',1.7953757697231171131e+09);
INSERT INTO "models" VALUES(2,'84e8d95d313ee347','phi','org/phi','{"schema_version":1,"location":"org/phi","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""}','{"location":"org/phi","fingerprint":"","architecture":"Phi3ForCausalLM","family":"phi3","layout":{"projections":["q","down"],"parameters":[[64,256],[64,256]]},"hidden_size":8,"intermediate_size":32,"heads":2,"kv_heads":1,"head_dim":4,"vocabulary":100,"context":128,"tied_embeddings":true,"dtype":"float32","parameters":5000000000,"gated_parameters":640,"memory_bytes":20000000000,"rotations":["none","global","per_layer","per_site"],"rotation_reason":"","chat_template":false,"shape":{"layout":{"projections":["q","down"],"parameters":[[64,256],[64,256]]},"inputs":[[8,32],[8,32]],"fused":true,"hidden_size":8,"heads":2,"kv_heads":1,"head_dim":4,"rotary_dim":4,"windows":[null,null],"head_weights":800,"further_weights":0,"embedding_row":8,"rms_norm_inputs":40,"layer_norm_inputs":0,"norm_weights":40,"biases":0,"biased":[],"dtype":"float32","shortcuts":"none"},"quantization":null}',1.79537576974148535731e+09);
INSERT INTO "models" VALUES(3,'836d0a7089e0603d','phi (bfloat16)','org/phi','{"schema_version":1,"location":"org/phi","revision":null,"dtype":"bfloat16","device":"auto","quantization":"none","fingerprint":""}',NULL,NULL);
INSERT INTO "models" VALUES(4,'87e3c9bf515dd7b6','unknown','org/unknown','{"schema_version":1,"location":"org/unknown","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""}',NULL,NULL);
CREATE TABLE plans (
	id INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	"plan" TEXT NOT NULL, 
	origin TEXT NOT NULL, 
	budget DOUBLE NOT NULL, 
	saved DOUBLE NOT NULL, 
	CONSTRAINT pk_plans PRIMARY KEY (id), 
	CONSTRAINT uq_plans_name UNIQUE (name)
);
INSERT INTO "plans" VALUES(1,'mine','{"kind":"table","layout":{"projections":["q","down"],"parameters":[[64,256],[64,256]]},"sparsity":[[0.25,0.5],[0.5,0.5]],"origin":"edited","rho":null}','edited',0.475,1.79537577076491856572e+09);
INSERT INTO "plans" VALUES(2,'searched','{"kind":"table","layout":{"projections":["q","down"],"parameters":[[64,256],[64,256]]},"sparsity":[[0.4,0.4],[0.4,0.75]],"origin":"greedy (as released)","rho":null}','greedy (as released)',0.54,1.79537577076960539815e+09);
CREATE TABLE rotations (
	id INTEGER NOT NULL, 
	model_id INTEGER NOT NULL, 
	hash TEXT NOT NULL, 
	label TEXT NOT NULL, 
	spec TEXT NOT NULL, 
	logits_deviation DOUBLE, 
	shortcut_parameters INTEGER NOT NULL, 
	seconds DOUBLE NOT NULL, 
	exported_to TEXT, 
	recorded DOUBLE NOT NULL, 
	CONSTRAINT pk_rotations PRIMARY KEY (id), 
	CONSTRAINT uq_rotations_model_id_hash UNIQUE (model_id, hash), 
	CONSTRAINT fk_rotations_model_id FOREIGN KEY(model_id) REFERENCES models (id)
);
INSERT INTO "rotations" VALUES(1,2,'e4209ab46042ce8d','per_site (k, gate)','{"schema_version":1,"mode":"per_site","attention_basis":["k"],"mlp_basis":["gate"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""}',1.0e-06,128,3.0,NULL,1.79537577081760311124e+09);
INSERT INTO "rotations" VALUES(2,2,'a9d5f6d002d956b8','global + heads','{"schema_version":1,"mode":"global","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":true,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""}',1.0e-06,128,3.0,NULL,1.79537577082496428489e+09);
INSERT INTO "rotations" VALUES(3,1,'e4209ab46042ce8d','per_site (k, gate)','{"schema_version":1,"mode":"per_site","attention_basis":["k"],"mlp_basis":["gate"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""}',1.0e-06,128,3.0,NULL,1.79537577082950568197e+09);
CREATE TABLE runs (
	id INTEGER NOT NULL, 
	hash TEXT NOT NULL, 
	model_id INTEGER NOT NULL, 
	spec TEXT NOT NULL, 
	rotation_label TEXT NOT NULL, 
	method_label TEXT NOT NULL, 
	arm_label TEXT NOT NULL, 
	selection TEXT NOT NULL, 
	plan_origin TEXT NOT NULL, 
	target_sparsity DOUBLE NOT NULL, 
	settings TEXT NOT NULL, 
	chosen_on_evaluation TEXT DEFAULT '' NOT NULL, 
	seed INTEGER NOT NULL, 
	unit_count INTEGER NOT NULL, 
	status TEXT NOT NULL, 
	error TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	environment_id INTEGER, 
	created DOUBLE NOT NULL, 
	started DOUBLE, 
	finished DOUBLE, 
	tags TEXT DEFAULT '' NOT NULL, 
	note TEXT DEFAULT '' NOT NULL, 
	pinned BOOLEAN DEFAULT 0 NOT NULL, 
	deleted DOUBLE, 
	CONSTRAINT pk_runs PRIMARY KEY (id), 
	CONSTRAINT uq_runs_hash UNIQUE (hash), 
	CONSTRAINT fk_runs_model_id FOREIGN KEY(model_id) REFERENCES models (id), 
	CONSTRAINT fk_runs_environment_id FOREIGN KEY(environment_id) REFERENCES environments (id)
);
INSERT INTO "runs" VALUES(1,'8ab4bdf9b07cf8cf',1,'{"schema_version":1,"model":{"schema_version":1,"location":"org/llama","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"dense","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"plan":{"kind":"uniform","sparsity":0.0},"calibration":null,"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','none','dense','dense','topk','uniform',0.0,'','',1234,2,'done','','another computer',1,1.79537576974812793737e+09,1.7953757697975549698e+09,1.7953757698171379566e+09,'','',0,NULL);
INSERT INTO "runs" VALUES(2,'06976839e7656044',1,'{"schema_version":1,"model":{"schema_version":1,"location":"org/llama","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"teal","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"plan":{"kind":"uniform","sparsity":0.5},"calibration":null,"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','none','teal','teal','topk','uniform',0.5,'','',1234,2,'done','','another computer',1,1.79537576974812793737e+09,1.79537577016864657395e+09,1.79537577017688965794e+09,'','',0,NULL);
INSERT INTO "runs" VALUES(3,'4f70eb6f1b24e824',1,'{"schema_version":1,"model":{"schema_version":1,"location":"org/llama","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"teal","variant":"paper","selection":"threshold","masks":"separate","correction":"none","rho":null},"plan":{"kind":"uniform","sparsity":0.5},"calibration":{"schema_version":1,"text":{"schema_version":1,"source":"demo:calibration","tokens":49152,"sequence":512,"fingerprint":""}},"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','none','teal','teal','threshold','uniform',0.5,'','',1234,2,'done','','another computer',1,1.79537576974812793737e+09,1.79537576984938526151e+09,1.79537576986509227749e+09,'','',0,1.7953757707619464397e+09);
INSERT INTO "runs" VALUES(4,'5d4cb6546f0400b1',1,'{"schema_version":1,"model":{"schema_version":1,"location":"org/llama","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"plan":{"kind":"uniform","sparsity":0.5},"calibration":null,"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','none','wina','wina','topk','uniform',0.5,'','',1234,2,'done','','another computer',1,1.79537576974812793737e+09,1.79537577054900670051e+09,1.79537577055687189099e+09,'','',0,NULL);
INSERT INTO "runs" VALUES(5,'bb5f01aa2edb044c',1,'{"schema_version":1,"model":{"schema_version":1,"location":"org/llama","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"threshold","masks":"separate","correction":"none","rho":null},"plan":{"kind":"uniform","sparsity":0.5},"calibration":{"schema_version":1,"text":{"schema_version":1,"source":"demo:calibration","tokens":49152,"sequence":512,"fingerprint":""}},"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','none','wina','wina','threshold','uniform',0.5,'','',1234,2,'done','','another computer',1,1.79537576974812793737e+09,1.79537576989724731446e+09,1.79537576991052293777e+09,'','',0,NULL);
INSERT INTO "runs" VALUES(6,'f260098c4bad86e0',1,'{"schema_version":1,"model":{"schema_version":1,"location":"org/llama","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"topk","masks":"separate","correction":"mean","rho":null},"plan":{"kind":"uniform","sparsity":0.5},"calibration":{"schema_version":1,"text":{"schema_version":1,"source":"demo:calibration","tokens":49152,"sequence":512,"fingerprint":""}},"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','none','wina (mean correction)','wina (mean correction)','topk','uniform',0.5,'','',1234,2,'done','','another computer',1,1.79537576974812793737e+09,1.79537576991713786122e+09,1.79537576992903280255e+09,'','',0,NULL);
INSERT INTO "runs" VALUES(7,'9ae75b015f4d2406',1,'{"schema_version":1,"model":{"schema_version":1,"location":"org/llama","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"as_released","selection":"topk","masks":"separate","correction":"none","rho":null},"plan":{"kind":"uniform","sparsity":0.5},"calibration":null,"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','none','wina (as released)','wina (as released)','topk','uniform',0.5,'','',1234,2,'done','','another computer',1,1.79537576974812793737e+09,1.79537576993282914166e+09,1.79537576994091057779e+09,'old','as the authors have it',0,NULL);
INSERT INTO "runs" VALUES(8,'56fa8dbaf0d452b2',1,'{"schema_version":1,"model":{"schema_version":1,"location":"org/llama","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"as_released","selection":"threshold","masks":"separate","correction":"none","rho":null},"plan":{"kind":"uniform","sparsity":0.5},"calibration":{"schema_version":1,"text":{"schema_version":1,"source":"demo:calibration","tokens":49152,"sequence":512,"fingerprint":""}},"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','none','wina (as released)','wina (as released)','threshold','uniform',0.5,'','',1234,2,'done','','another computer',1,1.79537576974812793737e+09,1.79537576994502043725e+09,1.795375769952906847e+09,'','',0,NULL);
INSERT INTO "runs" VALUES(9,'384a1947b6f10b31',1,'{"schema_version":1,"model":{"schema_version":1,"location":"org/llama","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"rsparse","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"plan":{"kind":"uniform","sparsity":0.5},"calibration":null,"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','none','rsparse','rsparse','topk','uniform',0.5,'','',1234,2,'done','','another computer',1,1.79537576974812793737e+09,1.7953757699570140839e+09,1.79537576996491742131e+09,'','',0,NULL);
INSERT INTO "runs" VALUES(10,'6c03b9b328dfea64',1,'{"schema_version":1,"model":{"schema_version":1,"location":"org/llama","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"rsparse","variant":"as_released","selection":"topk","masks":"separate","correction":"none","rho":null},"plan":{"kind":"uniform","sparsity":0.5},"calibration":null,"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','none','rsparse (as released)','rsparse (as released)','topk','uniform',0.5,'','',1234,2,'done','','another computer',1,1.79537576974812793737e+09,1.79537576996832919117e+09,1.79537576997691440587e+09,'','',0,NULL);
INSERT INTO "runs" VALUES(11,'71bea89e46d27df1',1,'{"schema_version":1,"model":{"schema_version":1,"location":"org/llama","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"scap","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"plan":{"kind":"uniform","sparsity":0.5},"calibration":{"schema_version":1,"text":{"schema_version":1,"source":"demo:calibration","tokens":49152,"sequence":512,"fingerprint":""}},"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','none','scap','scap','topk','uniform',0.5,'','',1234,2,'done','','another computer',1,1.79537576974812793737e+09,1.79537577005310750011e+09,1.79537577006866550443e+09,'best, mine','ours',1,NULL);
INSERT INTO "runs" VALUES(12,'d87c0829a35011ed',1,'{"schema_version":1,"model":{"schema_version":1,"location":"org/llama","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"scap","variant":"paper","selection":"threshold","masks":"shared","correction":"none","rho":null},"plan":{"kind":"uniform","sparsity":0.5},"calibration":{"schema_version":1,"text":{"schema_version":1,"source":"demo:calibration","tokens":49152,"sequence":512,"fingerprint":""}},"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','none','scap (shared masks)','scap (shared masks)','threshold','uniform',0.5,'','',1234,2,'done','','another computer',1,1.79537576974812793737e+09,1.7953757700052828789e+09,1.79537577001299834249e+09,'','',0,NULL);
INSERT INTO "runs" VALUES(13,'ebc4998a7a376a3c',1,'{"schema_version":1,"model":{"schema_version":1,"location":"org/llama","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"global","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":true,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"scap","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"plan":{"kind":"uniform","sparsity":0.5},"calibration":{"schema_version":1,"text":{"schema_version":1,"source":"demo:calibration","tokens":49152,"sequence":512,"fingerprint":""}},"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','global + heads','scap','scap, global + heads','topk','uniform',0.5,'','',1234,2,'done','','another computer',1,1.79537576974812793737e+09,1.79537577001846218108e+09,1.79537577003306293484e+09,'','',0,NULL);
INSERT INTO "runs" VALUES(14,'352b727ac1c751f5',1,'{"schema_version":1,"model":{"schema_version":1,"location":"org/llama","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"plan":{"kind":"allocated","sparsity":0.5,"allocator":{"schema_version":1,"name":"greedy","variant":"corrected","step":0.025,"rounds":20,"text":{"schema_version":1,"source":"demo:calibration","tokens":8192,"sequence":512,"fingerprint":""},"seed":0}},"calibration":null,"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','none','wina','wina','topk','greedy',0.5,'','',1234,2,'done','','another computer',1,1.79537577009863138196e+09,1.79537577013315129276e+09,1.79537577014092063903e+09,'','',0,NULL);
INSERT INTO "runs" VALUES(15,'208d136903a68d56',1,'{"schema_version":1,"model":{"schema_version":1,"location":"org/llama","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"plan":{"kind":"allocated","sparsity":0.5,"allocator":{"schema_version":1,"name":"greedy","variant":"as_released","step":0.025,"rounds":20,"text":{"schema_version":1,"source":"demo:calibration","tokens":8192,"sequence":512,"fingerprint":""},"seed":0}},"calibration":null,"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','none','wina','wina','topk','greedy (as released)',0.5,'','',1234,2,'done','','another computer',1,1.79537577009863138196e+09,1.79537577014497947694e+09,1.79537577015288758275e+09,'','',0,NULL);
INSERT INTO "runs" VALUES(16,'a40884576badd80a',1,'{"schema_version":1,"model":{"schema_version":1,"location":"org/llama","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"plan":{"kind":"allocated","sparsity":0.5,"allocator":{"schema_version":1,"name":"greedy","variant":"as_released","step":0.05,"rounds":20,"text":{"schema_version":1,"source":"demo:calibration","tokens":8192,"sequence":512,"fingerprint":""},"seed":0}},"calibration":null,"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','none','wina','wina','topk','greedy (as released, step 0.05)',0.5,'','',1234,2,'cancelled','','another computer',NULL,1.79537577009863138196e+09,NULL,1.79537577022918391224e+09,'','',0,NULL);
INSERT INTO "runs" VALUES(17,'c1a5433d20f97693',1,'{"schema_version":1,"model":{"schema_version":1,"location":"org/llama","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"plan":{"kind":"allocated","sparsity":0.5,"allocator":{"schema_version":1,"name":"evolution","variant":"as_released","step":0.025,"rounds":3,"text":{"schema_version":1,"source":"demo:calibration","tokens":8192,"sequence":512,"fingerprint":""},"seed":0}},"calibration":null,"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','none','wina','wina','topk','evolution (3 rounds)',0.5,'','',1234,2,'done','','another computer',1,1.79537577009863138196e+09,1.79537577015710258479e+09,1.79537577016488337513e+09,'','',0,NULL);
INSERT INTO "runs" VALUES(18,'6988b38e999f809b',1,'{"schema_version":1,"model":{"schema_version":1,"location":"org/llama","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"teal","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"plan":{"kind":"allocated","sparsity":0.5,"allocator":{"schema_version":1,"name":"greedy","variant":"corrected","step":0.025,"rounds":20,"text":{"schema_version":1,"source":"demo:calibration","tokens":8192,"sequence":512,"fingerprint":""},"seed":0}},"calibration":null,"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','none','teal','teal','topk','greedy',0.5,'','',1234,2,'done','','another computer',1,1.79537577009863138196e+09,1.79537577018098711964e+09,1.79537577019288349146e+09,'','',0,NULL);
INSERT INTO "runs" VALUES(19,'22f051b36117822b',1,'{"schema_version":1,"model":{"schema_version":1,"location":"org/llama","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"teal","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"plan":{"kind":"allocated","sparsity":0.5,"allocator":{"schema_version":1,"name":"greedy","variant":"as_released","step":0.025,"rounds":20,"text":{"schema_version":1,"source":"demo:calibration","tokens":8192,"sequence":512,"fingerprint":""},"seed":0}},"calibration":null,"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','none','teal','teal','topk','greedy (as released)',0.5,'','',1234,2,'done','','another computer',1,1.79537577009863138196e+09,1.79537577019698548321e+09,1.79537577020917630196e+09,'','',0,NULL);
INSERT INTO "runs" VALUES(20,'bd2e802abb317dbe',1,'{"schema_version":1,"model":{"schema_version":1,"location":"org/llama","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"teal","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"plan":{"kind":"allocated","sparsity":0.5,"allocator":{"schema_version":1,"name":"greedy","variant":"as_released","step":0.05,"rounds":20,"text":{"schema_version":1,"source":"demo:calibration","tokens":8192,"sequence":512,"fingerprint":""},"seed":0}},"calibration":null,"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','none','teal','teal','topk','greedy (as released, step 0.05)',0.5,'','',1234,2,'cancelled','','another computer',NULL,1.79537577009863138196e+09,NULL,1.79537577023714900016e+09,'','',0,NULL);
INSERT INTO "runs" VALUES(21,'351770bad240671c',1,'{"schema_version":1,"model":{"schema_version":1,"location":"org/llama","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"teal","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"plan":{"kind":"allocated","sparsity":0.5,"allocator":{"schema_version":1,"name":"evolution","variant":"as_released","step":0.025,"rounds":3,"text":{"schema_version":1,"source":"demo:calibration","tokens":8192,"sequence":512,"fingerprint":""},"seed":0}},"calibration":null,"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','none','teal','teal','topk','evolution (3 rounds)',0.5,'','',1234,2,'done','','another computer',1,1.79537577009863138196e+09,1.79537577021711325644e+09,1.79537577022492599487e+09,'','',0,NULL);
INSERT INTO "runs" VALUES(22,'9e06b11d90d120d2',2,'{"schema_version":1,"model":{"schema_version":1,"location":"org/phi","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"per_site","attention_basis":["k"],"mlp_basis":["gate"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"plan":{"kind":"uniform","sparsity":0.5},"calibration":null,"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','per_site (k, gate)','wina','wina, per_site (k, gate)','topk','uniform',0.5,'','',1234,2,'done','','another computer',1,1.79537577024695634841e+09,1.79537577027725100521e+09,1.79537577028906893726e+09,'','',0,NULL);
INSERT INTO "runs" VALUES(23,'948fbe00a30d6f04',2,'{"schema_version":1,"model":{"schema_version":1,"location":"org/phi","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"global","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":true,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"plan":{"kind":"uniform","sparsity":0.5},"calibration":null,"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','global + heads','wina','wina, global + heads','topk','uniform',0.5,'','',1234,2,'done','','another computer',1,1.79537577024695634841e+09,1.7953757702972621918e+09,1.79537577030497741696e+09,'','',0,NULL);
INSERT INTO "runs" VALUES(24,'9769e6bb095daa10',2,'{"schema_version":1,"model":{"schema_version":1,"location":"org/phi","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"plan":{"kind":"uniform","sparsity":0.5},"calibration":null,"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','none','wina','wina','topk','uniform',0.5,'','',1234,2,'done','','another computer',1,1.79537577024695634841e+09,1.79537577031717729566e+09,1.79537577032491827005e+09,'','',0,NULL);
INSERT INTO "runs" VALUES(25,'22a4edf96bdbb977',2,'{"schema_version":1,"model":{"schema_version":1,"location":"org/phi","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"per_site","attention_basis":["k"],"mlp_basis":["gate"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"dense","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"plan":{"kind":"uniform","sparsity":0.0},"calibration":null,"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','per_site (k, gate)','dense','dense, per_site (k, gate)','topk','uniform',0.0,'','',1234,2,'done','','another computer',1,1.79537577024695634841e+09,1.79537577033302807802e+09,1.79537577034089899062e+09,'','',0,NULL);
INSERT INTO "runs" VALUES(26,'27c90fb4b418d728',2,'{"schema_version":1,"model":{"schema_version":1,"location":"org/phi","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"global","attention_basis":["qkv"],"mlp_basis":["gate","activations"],"per_head":true,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"plan":{"kind":"uniform","sparsity":0.5},"calibration":null,"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','global (qkv, gate+activations) + heads','wina','wina, global (qkv, gate+activations) + heads','topk','uniform',0.5,'','',1234,2,'done','','another computer',1,1.79537577024695634841e+09,1.79537577034924030307e+09,1.79537577035693216324e+09,'','',0,NULL);
INSERT INTO "runs" VALUES(27,'f071f9b0f70f7be4',3,'{"schema_version":1,"model":{"schema_version":1,"location":"org/phi","revision":null,"dtype":"bfloat16","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"per_site","attention_basis":["k"],"mlp_basis":["gate"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"plan":{"kind":"uniform","sparsity":0.5},"calibration":null,"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','per_site (k, gate)','wina','wina, per_site (k, gate)','topk','uniform',0.5,'','',1234,2,'done','','another computer',1,1.79537577024695634841e+09,1.79537577036106038097e+09,1.79537577036893415457e+09,'','',0,NULL);
INSERT INTO "runs" VALUES(28,'e221fe86bf0a1191',3,'{"schema_version":1,"model":{"schema_version":1,"location":"org/phi","revision":null,"dtype":"bfloat16","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"global","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":true,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"plan":{"kind":"uniform","sparsity":0.5},"calibration":null,"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','global + heads','wina','wina, global + heads','topk','uniform',0.5,'','',1234,2,'done','','another computer',1,1.79537577024695634841e+09,1.79537577037301826479e+09,1.79537577038099765772e+09,'','',0,NULL);
INSERT INTO "runs" VALUES(29,'a23e8bef6a1a9cd3',3,'{"schema_version":1,"model":{"schema_version":1,"location":"org/phi","revision":null,"dtype":"bfloat16","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"plan":{"kind":"uniform","sparsity":0.5},"calibration":null,"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','none','wina','wina','topk','uniform',0.5,'','',1234,2,'done','','another computer',1,1.79537577024695634841e+09,1.79537577038915514946e+09,1.79537577039695739745e+09,'','',0,NULL);
INSERT INTO "runs" VALUES(30,'7526b2ca42696980',3,'{"schema_version":1,"model":{"schema_version":1,"location":"org/phi","revision":null,"dtype":"bfloat16","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"per_site","attention_basis":["k"],"mlp_basis":["gate"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"dense","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"plan":{"kind":"uniform","sparsity":0.0},"calibration":null,"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','per_site (k, gate)','dense','dense, per_site (k, gate)','topk','uniform',0.0,'','',1234,2,'done','','another computer',1,1.79537577024695634841e+09,1.79537577040514707569e+09,1.79537577041296267507e+09,'','',0,NULL);
INSERT INTO "runs" VALUES(31,'065311b9b161189e',3,'{"schema_version":1,"model":{"schema_version":1,"location":"org/phi","revision":null,"dtype":"bfloat16","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"global","attention_basis":["qkv"],"mlp_basis":["gate","activations"],"per_head":true,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"plan":{"kind":"uniform","sparsity":0.5},"calibration":null,"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','global (qkv, gate+activations) + heads','wina','wina, global (qkv, gate+activations) + heads','topk','uniform',0.5,'','',1234,2,'done','','another computer',1,1.79537577024695634841e+09,1.79537577041699671748e+09,1.79537577042503571512e+09,'','',0,NULL);
INSERT INTO "runs" VALUES(32,'b3a774b86976157d',4,'{"schema_version":1,"model":{"schema_version":1,"location":"org/unknown","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"per_site","attention_basis":["k"],"mlp_basis":["gate"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"plan":{"kind":"uniform","sparsity":0.5},"calibration":null,"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','per_site (k, gate)','wina','wina, per_site (k, gate)','topk','uniform',0.5,'','',1234,2,'done','','another computer',1,1.79537577024695634841e+09,1.79537577043308401109e+09,1.79537577044100284573e+09,'','',0,NULL);
INSERT INTO "runs" VALUES(33,'fe472e6f6ba9ad38',4,'{"schema_version":1,"model":{"schema_version":1,"location":"org/unknown","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"global","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":true,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"plan":{"kind":"uniform","sparsity":0.5},"calibration":null,"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','global + heads','wina','wina, global + heads','topk','uniform',0.5,'','',1234,2,'done','','another computer',1,1.79537577024695634841e+09,1.79537577044912791254e+09,1.79537577045692563052e+09,'','',0,NULL);
INSERT INTO "runs" VALUES(34,'abd1a45b7ce5e6df',4,'{"schema_version":1,"model":{"schema_version":1,"location":"org/unknown","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"plan":{"kind":"uniform","sparsity":0.5},"calibration":null,"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','none','wina','wina','topk','uniform',0.5,'','',1234,2,'done','','another computer',1,1.79537577024695634841e+09,1.79537577046104907993e+09,1.7953757704691410065e+09,'','',0,NULL);
INSERT INTO "runs" VALUES(35,'27254d4c55136a3f',4,'{"schema_version":1,"model":{"schema_version":1,"location":"org/unknown","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"per_site","attention_basis":["k"],"mlp_basis":["gate"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"dense","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"plan":{"kind":"uniform","sparsity":0.0},"calibration":null,"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','per_site (k, gate)','dense','dense, per_site (k, gate)','topk','uniform',0.0,'','',1234,2,'done','','another computer',1,1.79537577024695634841e+09,1.79537577047721624377e+09,1.7953757704891109467e+09,'','',0,NULL);
INSERT INTO "runs" VALUES(36,'d1075fdc4d40b9b1',4,'{"schema_version":1,"model":{"schema_version":1,"location":"org/unknown","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"global","attention_basis":["qkv"],"mlp_basis":["gate","activations"],"per_head":true,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"plan":{"kind":"uniform","sparsity":0.5},"calibration":null,"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','global (qkv, gate+activations) + heads','wina','wina, global (qkv, gate+activations) + heads','topk','uniform',0.5,'','',1234,2,'done','','another computer',1,1.79537577024695634841e+09,1.79537577050106978413e+09,1.79537577050887751581e+09,'','',0,NULL);
INSERT INTO "runs" VALUES(37,'6eb0976118c17a81',1,'{"schema_version":1,"model":{"schema_version":1,"location":"org/llama","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"per_site","attention_basis":["k"],"mlp_basis":["gate"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"plan":{"kind":"uniform","sparsity":0.5},"calibration":null,"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','per_site (k, gate)','wina','wina, per_site (k, gate)','topk','uniform',0.5,'','',1234,2,'done','','another computer',1,1.79537577024695634841e+09,1.79537577051715970043e+09,1.79537577052892208099e+09,'','',0,NULL);
INSERT INTO "runs" VALUES(38,'720a01552e3c656a',1,'{"schema_version":1,"model":{"schema_version":1,"location":"org/llama","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"global","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":true,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"plan":{"kind":"uniform","sparsity":0.5},"calibration":null,"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','global + heads','wina','wina, global + heads','topk','uniform',0.5,'','',1234,2,'done','','another computer',1,1.79537577024695634841e+09,1.79537577053298091889e+09,1.79537577054089736937e+09,'','',0,NULL);
INSERT INTO "runs" VALUES(39,'b1075fdbbc61292d',1,'{"schema_version":1,"model":{"schema_version":1,"location":"org/llama","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"per_site","attention_basis":["k"],"mlp_basis":["gate"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"dense","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"plan":{"kind":"uniform","sparsity":0.0},"calibration":null,"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','per_site (k, gate)','dense','dense, per_site (k, gate)','topk','uniform',0.0,'','',1234,2,'done','','another computer',1,1.79537577024695634841e+09,1.79537577056500124929e+09,1.79537577058489727973e+09,'','',0,NULL);
INSERT INTO "runs" VALUES(40,'e160d6326f3ef0ae',1,'{"schema_version":1,"model":{"schema_version":1,"location":"org/llama","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"global","attention_basis":["qkv"],"mlp_basis":["gate","activations"],"per_head":true,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"plan":{"kind":"uniform","sparsity":0.5},"calibration":null,"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','global (qkv, gate+activations) + heads','wina','wina, global (qkv, gate+activations) + heads','topk','uniform',0.5,'','',1234,2,'done','','another computer',1,1.79537577024695634841e+09,1.79537577058909440038e+09,1.79537577059688138961e+09,'','',0,NULL);
INSERT INTO "runs" VALUES(41,'92e9d4c927bb6106',2,'{"schema_version":1,"model":{"schema_version":1,"location":"org/phi","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"per_site","attention_basis":["k"],"mlp_basis":["gate"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":"/bases/given.safetensors","matrices_fingerprint":"0123456789abcdef"},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"plan":{"kind":"uniform","sparsity":0.5},"calibration":null,"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','per_site (given: given.safetensors 012345)','wina','wina, per_site (given: given.safetensors 012345)','topk','uniform',0.5,'','',1234,2,'done','','another computer',1,1.79537577060087847713e+09,1.79537577061309266092e+09,1.79537577062403178214e+09,'','',0,NULL);
INSERT INTO "runs" VALUES(42,'a688f0af7e42d2fd',1,'{"schema_version":1,"model":{"schema_version":1,"location":"org/llama","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"plan":{"kind":"table","layout":{"projections":["q","down"],"parameters":[[64,256],[64,256]]},"sparsity":[[0.25,0.5],[0.5,0.5]],"origin":"edited","rho":null},"calibration":null,"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','none','wina','wina','topk','edited',0.475,'','',1234,2,'queued','','another computer',1,1.79537577062970805171e+09,1.79537577064514970778e+09,NULL,'','',0,NULL);
INSERT INTO "runs" VALUES(43,'047eb6e3e9528f6b',1,'{"schema_version":1,"model":{"schema_version":1,"location":"org/llama","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"plan":{"kind":"table","layout":{"projections":["q","down"],"parameters":[[64,256],[64,256]]},"sparsity":[[0.25,0.5],[0.5,0.5]],"origin":"greedy","rho":null},"calibration":null,"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','none','wina','wina','topk','greedy',0.475,'','',1234,2,'done','','another computer',1,1.79537577062970805171e+09,1.79537577065697646146e+09,1.79537577066489624976e+09,'','this table',0,NULL);
INSERT INTO "runs" VALUES(44,'b24f04d4666fd4e2',1,'{"schema_version":1,"model":{"schema_version":1,"location":"org/llama","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"plan":{"kind":"table","layout":{"projections":["q","down"],"parameters":[[64,256],[64,256]]},"sparsity":[[0.25,0.5],[0.5,0.5]],"origin":"preset","rho":null},"calibration":null,"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','none','wina','wina','topk','preset',0.475,'','',1234,2,'queued','','another computer',1,1.79537577062970805171e+09,1.79537577066946601872e+09,NULL,'','',0,NULL);
INSERT INTO "runs" VALUES(45,'4c2cbe7bcbaa9523',1,'{"schema_version":1,"model":{"schema_version":1,"location":"org/llama","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"plan":{"kind":"table","layout":{"projections":["q","down"],"parameters":[[64,256],[64,256]]},"sparsity":[[0.4,0.4],[0.4,0.75]],"origin":"uniform","rho":null},"calibration":null,"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','none','wina','wina','topk','uniform',0.54,'','',1234,2,'interrupted','ended','another computer',1,1.79537577062970805171e+09,1.79537577068498325344e+09,1.79537577069736480712e+09,'','',0,NULL);
INSERT INTO "runs" VALUES(46,'df7f48ed468cea73',1,'{"schema_version":1,"model":{"schema_version":1,"location":"org/llama","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"plan":{"kind":"table","layout":{"projections":["q","down"],"parameters":[[64,256],[64,256]]},"sparsity":[[0.25,0.5],[0.5,0.5]],"origin":"refine","rho":null},"calibration":null,"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','none','wina','wina','topk','refine',0.475,'','',1234,2,'failed','out of memory','another computer',NULL,1.79537577070176982882e+09,NULL,1.79537577074925565724e+09,'','',0,NULL);
INSERT INTO "runs" VALUES(47,'50aa194599dee027',1,'{"schema_version":1,"model":{"schema_version":1,"location":"org/llama","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},"rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"plan":{"kind":"table","layout":{"projections":["q","down"],"parameters":[[64,256],[64,256]]},"sparsity":[[0.4,0.4],[0.4,0.75]],"origin":"edited","rho":null},"calibration":null,"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null}}','none','wina','wina','topk','edited',0.54,'','',1234,2,'done','','another computer',1,1.79537577070176982882e+09,1.79537577071708703045e+09,1.79537577072890806202e+09,'','',0,NULL);
CREATE TABLE samples (
	id INTEGER NOT NULL, 
	unit_id INTEGER NOT NULL, 
	task TEXT NOT NULL, 
	doc INTEGER NOT NULL, 
	scores TEXT NOT NULL, 
	target TEXT NOT NULL, 
	response TEXT NOT NULL, 
	CONSTRAINT pk_samples PRIMARY KEY (id), 
	CONSTRAINT uq_samples_unit_id_task_doc UNIQUE (unit_id, task, doc), 
	CONSTRAINT fk_samples_unit_id FOREIGN KEY(unit_id) REFERENCES units (id) ON DELETE CASCADE
);
INSERT INTO "samples" VALUES(1,2,'choice',0,'{"acc": [1.0, 1.0]}','0','[]');
INSERT INTO "samples" VALUES(3,6,'choice',0,'{"acc": [1.0, 1.0]}','0','[]');
INSERT INTO "samples" VALUES(5,10,'choice',0,'{"acc": [1.0, 1.0]}','0','[]');
INSERT INTO "samples" VALUES(6,12,'choice',0,'{"acc": [1.0, 1.0]}','0','[]');
INSERT INTO "samples" VALUES(7,14,'choice',0,'{"acc": [1.0, 1.0]}','0','[]');
INSERT INTO "samples" VALUES(8,16,'choice',0,'{"acc": [1.0, 1.0]}','0','[]');
INSERT INTO "samples" VALUES(9,18,'choice',0,'{"acc": [1.0, 1.0]}','0','[]');
INSERT INTO "samples" VALUES(10,20,'choice',0,'{"acc": [1.0, 1.0]}','0','[]');
INSERT INTO "samples" VALUES(12,24,'choice',0,'{"acc": [1.0, 1.0]}','0','[]');
INSERT INTO "samples" VALUES(13,26,'choice',0,'{"acc": [1.0, 1.0]}','0','[]');
CREATE TABLE studies (
	id INTEGER NOT NULL, 
	hash TEXT NOT NULL, 
	name TEXT NOT NULL, 
	spec TEXT NOT NULL, 
	saved DOUBLE NOT NULL, 
	CONSTRAINT pk_studies PRIMARY KEY (id), 
	CONSTRAINT uq_studies_hash UNIQUE (hash)
);
INSERT INTO "studies" VALUES(1,'3159a7efdbeeb9df','methods','{"schema_version":1,"name":"methods","title":"","description":"","paper":"","roles":[],"models":[{"schema_version":1,"location":"org/llama","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""}],"arms":[{"schema_version":1,"name":"","rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"dense","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"sparsities":[],"roles":[]},{"schema_version":1,"name":"","rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"teal","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"sparsities":[],"roles":[]},{"schema_version":1,"name":"","rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"teal","variant":"paper","selection":"threshold","masks":"separate","correction":"none","rho":null},"sparsities":[],"roles":[]},{"schema_version":1,"name":"","rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"sparsities":[],"roles":[]},{"schema_version":1,"name":"","rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"threshold","masks":"separate","correction":"none","rho":null},"sparsities":[],"roles":[]},{"schema_version":1,"name":"","rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"topk","masks":"separate","correction":"mean","rho":null},"sparsities":[],"roles":[]},{"schema_version":1,"name":"","rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"as_released","selection":"topk","masks":"separate","correction":"none","rho":null},"sparsities":[],"roles":[]},{"schema_version":1,"name":"","rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"as_released","selection":"threshold","masks":"separate","correction":"none","rho":null},"sparsities":[],"roles":[]},{"schema_version":1,"name":"","rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"rsparse","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"sparsities":[],"roles":[]},{"schema_version":1,"name":"","rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"rsparse","variant":"as_released","selection":"topk","masks":"separate","correction":"none","rho":null},"sparsities":[],"roles":[]},{"schema_version":1,"name":"","rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"scap","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"sparsities":[],"roles":[]},{"schema_version":1,"name":"","rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"scap","variant":"paper","selection":"threshold","masks":"shared","correction":"none","rho":null},"sparsities":[],"roles":[]},{"schema_version":1,"name":"scap as we call it","rotation":{"schema_version":1,"mode":"global","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":true,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"scap","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"sparsities":[],"roles":[]},{"schema_version":1,"name":"","rotation":{"schema_version":1,"mode":"global","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":true,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"scap","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"sparsities":[],"roles":[]}],"sparsities":[0.5],"allocators":[{"schema_version":1,"name":"uniform","variant":"corrected","step":0.025,"rounds":20,"text":{"schema_version":1,"source":"demo:calibration","tokens":8192,"sequence":512,"fingerprint":""},"seed":0}],"plans":[],"calibration":{"schema_version":1,"text":{"schema_version":1,"source":"demo:calibration","tokens":49152,"sequence":512,"fingerprint":""}},"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null},"latency":null}',1.79537576974812793737e+09);
INSERT INTO "studies" VALUES(2,'56673fe501585916','scap at the top k','{"schema_version":1,"name":"scap at the top k","title":"","description":"","paper":"","roles":[],"models":[{"schema_version":1,"location":"org/llama","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""}],"arms":[{"schema_version":1,"name":"","rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"scap","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"sparsities":[],"roles":[]},{"schema_version":1,"name":"","rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"teal","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"sparsities":[],"roles":[]}],"sparsities":[0.5],"allocators":[{"schema_version":1,"name":"uniform","variant":"corrected","step":0.025,"rounds":20,"text":{"schema_version":1,"source":"demo:calibration","tokens":8192,"sequence":512,"fingerprint":""},"seed":0}],"plans":[],"calibration":{"schema_version":1,"text":{"schema_version":1,"source":"demo:calibration","tokens":49152,"sequence":512,"fingerprint":""}},"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null},"latency":null}',1.79537577004192495347e+09);
INSERT INTO "studies" VALUES(3,'c8d7023bb7d30580','allocated','{"schema_version":1,"name":"allocated","title":"","description":"","paper":"","roles":[],"models":[{"schema_version":1,"location":"org/llama","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""}],"arms":[{"schema_version":1,"name":"","rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"sparsities":[],"roles":[]},{"schema_version":1,"name":"","rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"teal","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"sparsities":[],"roles":[]}],"sparsities":[0.5],"allocators":[{"schema_version":1,"name":"uniform","variant":"corrected","step":0.025,"rounds":20,"text":{"schema_version":1,"source":"demo:calibration","tokens":8192,"sequence":512,"fingerprint":""},"seed":0},{"schema_version":1,"name":"greedy","variant":"corrected","step":0.025,"rounds":20,"text":{"schema_version":1,"source":"demo:calibration","tokens":8192,"sequence":512,"fingerprint":""},"seed":0},{"schema_version":1,"name":"greedy","variant":"as_released","step":0.025,"rounds":20,"text":{"schema_version":1,"source":"demo:calibration","tokens":8192,"sequence":512,"fingerprint":""},"seed":0},{"schema_version":1,"name":"greedy","variant":"as_released","step":0.05,"rounds":20,"text":{"schema_version":1,"source":"demo:calibration","tokens":8192,"sequence":512,"fingerprint":""},"seed":0},{"schema_version":1,"name":"evolution","variant":"as_released","step":0.025,"rounds":3,"text":{"schema_version":1,"source":"demo:calibration","tokens":8192,"sequence":512,"fingerprint":""},"seed":0}],"plans":[],"calibration":{"schema_version":1,"text":{"schema_version":1,"source":"demo:calibration","tokens":49152,"sequence":512,"fingerprint":""}},"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null},"latency":null}',1.79537577009863138196e+09);
INSERT INTO "studies" VALUES(4,'969567ae23d73763','fused','{"schema_version":1,"name":"fused","title":"","description":"","paper":"","roles":[],"models":[{"schema_version":1,"location":"org/phi","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},{"schema_version":1,"location":"org/phi","revision":null,"dtype":"bfloat16","device":"auto","quantization":"none","fingerprint":""},{"schema_version":1,"location":"org/unknown","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""},{"schema_version":1,"location":"org/llama","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""}],"arms":[{"schema_version":1,"name":"","rotation":{"schema_version":1,"mode":"per_site","attention_basis":["k"],"mlp_basis":["gate"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"sparsities":[],"roles":[]},{"schema_version":1,"name":"","rotation":{"schema_version":1,"mode":"global","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":true,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"sparsities":[],"roles":[]},{"schema_version":1,"name":"","rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"sparsities":[],"roles":[]},{"schema_version":1,"name":"","rotation":{"schema_version":1,"mode":"per_site","attention_basis":["k"],"mlp_basis":["gate"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"dense","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"sparsities":[],"roles":[]},{"schema_version":1,"name":"","rotation":{"schema_version":1,"mode":"global","attention_basis":["qkv"],"mlp_basis":["gate","activations"],"per_head":true,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"sparsities":[],"roles":[]}],"sparsities":[0.5],"allocators":[{"schema_version":1,"name":"uniform","variant":"corrected","step":0.025,"rounds":20,"text":{"schema_version":1,"source":"demo:calibration","tokens":8192,"sequence":512,"fingerprint":""},"seed":0}],"plans":[],"calibration":{"schema_version":1,"text":{"schema_version":1,"source":"demo:calibration","tokens":49152,"sequence":512,"fingerprint":""}},"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null},"latency":null}',1.79537577024695634841e+09);
INSERT INTO "studies" VALUES(5,'f039328896c4e6bf','given matrices','{"schema_version":1,"name":"given matrices","title":"","description":"","paper":"","roles":[],"models":[{"schema_version":1,"location":"org/phi","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""}],"arms":[{"schema_version":1,"name":"","rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"sparsities":[],"roles":[]}],"sparsities":[0.5],"allocators":[{"schema_version":1,"name":"uniform","variant":"corrected","step":0.025,"rounds":20,"text":{"schema_version":1,"source":"demo:calibration","tokens":8192,"sequence":512,"fingerprint":""},"seed":0}],"plans":[],"calibration":{"schema_version":1,"text":{"schema_version":1,"source":"demo:calibration","tokens":49152,"sequence":512,"fingerprint":""}},"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null},"latency":null}',1.79537577060087847713e+09);
INSERT INTO "studies" VALUES(6,'c3fa0926fee47079','tables','{"schema_version":1,"name":"tables","title":"","description":"","paper":"","roles":[],"models":[{"schema_version":1,"location":"org/llama","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""}],"arms":[{"schema_version":1,"name":"","rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"sparsities":[],"roles":[]}],"sparsities":[],"allocators":[{"schema_version":1,"name":"uniform","variant":"corrected","step":0.025,"rounds":20,"text":{"schema_version":1,"source":"demo:calibration","tokens":8192,"sequence":512,"fingerprint":""},"seed":0}],"plans":[{"kind":"table","layout":{"projections":["q","down"],"parameters":[[64,256],[64,256]]},"sparsity":[[0.25,0.5],[0.5,0.5]],"origin":"edited","rho":null},{"kind":"table","layout":{"projections":["q","down"],"parameters":[[64,256],[64,256]]},"sparsity":[[0.25,0.5],[0.5,0.5]],"origin":"greedy","rho":null},{"kind":"table","layout":{"projections":["q","down"],"parameters":[[64,256],[64,256]]},"sparsity":[[0.25,0.5],[0.5,0.5]],"origin":"preset","rho":null},{"kind":"table","layout":{"projections":["q","down"],"parameters":[[64,256],[64,256]]},"sparsity":[[0.4,0.4],[0.4,0.75]],"origin":"uniform","rho":null}],"calibration":{"schema_version":1,"text":{"schema_version":1,"source":"demo:calibration","tokens":49152,"sequence":512,"fingerprint":""}},"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null},"latency":null}',1.79537577062970805171e+09);
INSERT INTO "studies" VALUES(7,'72af2bc819ec3911','tables','{"schema_version":1,"name":"tables","title":"","description":"","paper":"","roles":[],"models":[{"schema_version":1,"location":"org/llama","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""}],"arms":[{"schema_version":1,"name":"","rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"sparsities":[],"roles":[]}],"sparsities":[],"allocators":[{"schema_version":1,"name":"uniform","variant":"corrected","step":0.025,"rounds":20,"text":{"schema_version":1,"source":"demo:calibration","tokens":8192,"sequence":512,"fingerprint":""},"seed":0}],"plans":[{"kind":"table","layout":{"projections":["q","down"],"parameters":[[64,256],[64,256]]},"sparsity":[[0.25,0.5],[0.5,0.5]],"origin":"preset","rho":null},{"kind":"table","layout":{"projections":["q","down"],"parameters":[[64,256],[64,256]]},"sparsity":[[0.25,0.5],[0.5,0.5]],"origin":"refine","rho":null},{"kind":"table","layout":{"projections":["q","down"],"parameters":[[64,256],[64,256]]},"sparsity":[[0.25,0.5],[0.5,0.5]],"origin":"edited","rho":null},{"kind":"table","layout":{"projections":["q","down"],"parameters":[[64,256],[64,256]]},"sparsity":[[0.4,0.4],[0.4,0.75]],"origin":"edited","rho":null}],"calibration":{"schema_version":1,"text":{"schema_version":1,"source":"demo:calibration","tokens":49152,"sequence":512,"fingerprint":""}},"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null},"latency":null}',1.79537577070176982882e+09);
INSERT INTO "studies" VALUES(8,'42e6b7cf948581e5','tables elsewhere','{"schema_version":1,"name":"tables elsewhere","title":"","description":"","paper":"","roles":[],"models":[{"schema_version":1,"location":"org/llama","revision":null,"dtype":"auto","device":"auto","quantization":"none","fingerprint":""}],"arms":[{"schema_version":1,"name":"","rotation":{"schema_version":1,"mode":"none","attention_basis":["qkv","activations"],"mlp_basis":["gate_up","activations"],"per_head":false,"weighting":"trace","objective":"eigen","steps":300,"text":{"schema_version":1,"source":"demo:calibration","tokens":16384,"sequence":512,"fingerprint":""},"matrices":null,"matrices_fingerprint":""},"method":{"schema_version":1,"name":"wina","variant":"paper","selection":"topk","masks":"separate","correction":"none","rho":null},"sparsities":[],"roles":[]}],"sparsities":[],"allocators":[{"schema_version":1,"name":"uniform","variant":"corrected","step":0.025,"rounds":20,"text":{"schema_version":1,"source":"demo:calibration","tokens":8192,"sequence":512,"fingerprint":""},"seed":0}],"plans":[{"kind":"table","layout":{"projections":["q","down"],"parameters":[[64,256],[64,256]]},"sparsity":[[0.4,0.4],[0.4,0.75]],"origin":"edited","rho":null},{"kind":"table","layout":{"projections":["q","down"],"parameters":[[64,256],[64,256]]},"sparsity":[[0.25,0.5],[0.5,0.5]],"origin":"refine","rho":null}],"calibration":{"schema_version":1,"text":{"schema_version":1,"source":"demo:calibration","tokens":49152,"sequence":512,"fingerprint":""}},"evaluation":{"schema_version":1,"tasks":["choice"],"task_folders":[],"task_fingerprint":"","data_folder":null,"data_fingerprint":"","limit":null,"num_fewshot":null,"batch_size":16,"seed":1234,"dense_prefix":0.0,"deviation":{"schema_version":1,"source":"demo:heldout","tokens":16384,"sequence":512,"fingerprint":""},"cost_context":null,"synthetic":null},"latency":null}',1.79537577073743438715e+09);
CREATE TABLE study_labels (
	id INTEGER NOT NULL, 
	study_id INTEGER NOT NULL, 
	run_id INTEGER NOT NULL, 
	model TEXT NOT NULL, 
	arm TEXT NOT NULL, 
	allocation TEXT NOT NULL, 
	CONSTRAINT pk_study_labels PRIMARY KEY (id), 
	CONSTRAINT fk_study_labels_study_id FOREIGN KEY(study_id) REFERENCES studies (id) ON DELETE CASCADE, 
	CONSTRAINT fk_study_labels_run_id FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);
INSERT INTO "study_labels" VALUES(1,1,1,'llama','dense','uniform');
INSERT INTO "study_labels" VALUES(2,1,2,'llama','teal, topk','uniform');
INSERT INTO "study_labels" VALUES(3,1,3,'llama','teal, threshold','uniform');
INSERT INTO "study_labels" VALUES(4,1,4,'llama','wina, topk','uniform');
INSERT INTO "study_labels" VALUES(5,1,5,'llama','wina, threshold','uniform');
INSERT INTO "study_labels" VALUES(6,1,6,'llama','wina (mean correction)','uniform');
INSERT INTO "study_labels" VALUES(7,1,7,'llama','wina (as released), topk','uniform');
INSERT INTO "study_labels" VALUES(8,1,8,'llama','wina (as released), threshold','uniform');
INSERT INTO "study_labels" VALUES(9,1,9,'llama','rsparse','uniform');
INSERT INTO "study_labels" VALUES(10,1,10,'llama','rsparse (as released)','uniform');
INSERT INTO "study_labels" VALUES(11,1,11,'llama','scap','uniform');
INSERT INTO "study_labels" VALUES(12,1,12,'llama','scap (shared masks)','uniform');
INSERT INTO "study_labels" VALUES(13,1,13,'llama','scap as we call it','uniform');
INSERT INTO "study_labels" VALUES(14,1,13,'llama','scap, global + heads','uniform');
INSERT INTO "study_labels" VALUES(15,2,11,'llama','scap','uniform');
INSERT INTO "study_labels" VALUES(16,2,2,'llama','teal','uniform');
INSERT INTO "study_labels" VALUES(17,3,4,'llama','wina','uniform');
INSERT INTO "study_labels" VALUES(18,3,14,'llama','wina','greedy');
INSERT INTO "study_labels" VALUES(19,3,15,'llama','wina','greedy (as released)');
INSERT INTO "study_labels" VALUES(20,3,16,'llama','wina','greedy (as released, step 0.05)');
INSERT INTO "study_labels" VALUES(21,3,17,'llama','wina','evolution (3 rounds)');
INSERT INTO "study_labels" VALUES(22,3,2,'llama','teal','uniform');
INSERT INTO "study_labels" VALUES(23,3,18,'llama','teal','greedy');
INSERT INTO "study_labels" VALUES(24,3,19,'llama','teal','greedy (as released)');
INSERT INTO "study_labels" VALUES(25,3,20,'llama','teal','greedy (as released, step 0.05)');
INSERT INTO "study_labels" VALUES(26,3,21,'llama','teal','evolution (3 rounds)');
INSERT INTO "study_labels" VALUES(27,4,22,'phi','wina, per_site (k, gate)','uniform');
INSERT INTO "study_labels" VALUES(28,4,23,'phi','wina, global + heads','uniform');
INSERT INTO "study_labels" VALUES(29,4,24,'phi','wina','uniform');
INSERT INTO "study_labels" VALUES(30,4,25,'phi','dense, per_site (k, gate)','uniform');
INSERT INTO "study_labels" VALUES(31,4,26,'phi','wina, global (qkv, gate+activations) + heads','uniform');
INSERT INTO "study_labels" VALUES(32,4,27,'phi (bfloat16)','wina, per_site (k, gate)','uniform');
INSERT INTO "study_labels" VALUES(33,4,28,'phi (bfloat16)','wina, global + heads','uniform');
INSERT INTO "study_labels" VALUES(34,4,29,'phi (bfloat16)','wina','uniform');
INSERT INTO "study_labels" VALUES(35,4,30,'phi (bfloat16)','dense, per_site (k, gate)','uniform');
INSERT INTO "study_labels" VALUES(36,4,31,'phi (bfloat16)','wina, global (qkv, gate+activations) + heads','uniform');
INSERT INTO "study_labels" VALUES(37,4,32,'unknown','wina, per_site (k, gate)','uniform');
INSERT INTO "study_labels" VALUES(38,4,33,'unknown','wina, global + heads','uniform');
INSERT INTO "study_labels" VALUES(39,4,34,'unknown','wina','uniform');
INSERT INTO "study_labels" VALUES(40,4,35,'unknown','dense, per_site (k, gate)','uniform');
INSERT INTO "study_labels" VALUES(41,4,36,'unknown','wina, global (qkv, gate+activations) + heads','uniform');
INSERT INTO "study_labels" VALUES(42,4,37,'llama','wina, per_site (k, gate)','uniform');
INSERT INTO "study_labels" VALUES(43,4,38,'llama','wina, global + heads','uniform');
INSERT INTO "study_labels" VALUES(44,4,4,'llama','wina','uniform');
INSERT INTO "study_labels" VALUES(45,4,39,'llama','dense, per_site (k, gate)','uniform');
INSERT INTO "study_labels" VALUES(46,4,40,'llama','wina, global (qkv, gate+activations) + heads','uniform');
INSERT INTO "study_labels" VALUES(47,6,42,'llama','wina','edited');
INSERT INTO "study_labels" VALUES(48,6,43,'llama','wina','greedy');
INSERT INTO "study_labels" VALUES(49,6,44,'llama','wina','preset');
INSERT INTO "study_labels" VALUES(50,6,45,'llama','wina','uniform');
INSERT INTO "study_labels" VALUES(51,7,44,'llama','wina','preset');
INSERT INTO "study_labels" VALUES(52,7,46,'llama','wina','refine');
INSERT INTO "study_labels" VALUES(53,7,42,'llama','wina','edited');
INSERT INTO "study_labels" VALUES(54,7,47,'llama','wina','edited');
INSERT INTO "study_labels" VALUES(55,8,47,'llama','wina','edited');
INSERT INTO "study_labels" VALUES(56,8,46,'llama','wina','refine');
CREATE TABLE study_runs (
	study_id INTEGER NOT NULL, 
	run_id INTEGER NOT NULL, 
	position INTEGER NOT NULL, 
	CONSTRAINT pk_study_runs PRIMARY KEY (study_id, run_id), 
	CONSTRAINT fk_study_runs_study_id FOREIGN KEY(study_id) REFERENCES studies (id) ON DELETE CASCADE, 
	CONSTRAINT fk_study_runs_run_id FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);
INSERT INTO "study_runs" VALUES(1,1,0);
INSERT INTO "study_runs" VALUES(1,2,1);
INSERT INTO "study_runs" VALUES(1,3,2);
INSERT INTO "study_runs" VALUES(1,4,3);
INSERT INTO "study_runs" VALUES(1,5,4);
INSERT INTO "study_runs" VALUES(1,6,5);
INSERT INTO "study_runs" VALUES(1,7,6);
INSERT INTO "study_runs" VALUES(1,8,7);
INSERT INTO "study_runs" VALUES(1,9,8);
INSERT INTO "study_runs" VALUES(1,10,9);
INSERT INTO "study_runs" VALUES(1,11,10);
INSERT INTO "study_runs" VALUES(1,12,11);
INSERT INTO "study_runs" VALUES(1,13,12);
INSERT INTO "study_runs" VALUES(2,11,0);
INSERT INTO "study_runs" VALUES(2,2,1);
INSERT INTO "study_runs" VALUES(3,4,0);
INSERT INTO "study_runs" VALUES(3,14,1);
INSERT INTO "study_runs" VALUES(3,15,2);
INSERT INTO "study_runs" VALUES(3,16,3);
INSERT INTO "study_runs" VALUES(3,17,4);
INSERT INTO "study_runs" VALUES(3,2,5);
INSERT INTO "study_runs" VALUES(3,18,6);
INSERT INTO "study_runs" VALUES(3,19,7);
INSERT INTO "study_runs" VALUES(3,20,8);
INSERT INTO "study_runs" VALUES(3,21,9);
INSERT INTO "study_runs" VALUES(4,22,0);
INSERT INTO "study_runs" VALUES(4,23,1);
INSERT INTO "study_runs" VALUES(4,24,2);
INSERT INTO "study_runs" VALUES(4,25,3);
INSERT INTO "study_runs" VALUES(4,26,4);
INSERT INTO "study_runs" VALUES(4,27,5);
INSERT INTO "study_runs" VALUES(4,28,6);
INSERT INTO "study_runs" VALUES(4,29,7);
INSERT INTO "study_runs" VALUES(4,30,8);
INSERT INTO "study_runs" VALUES(4,31,9);
INSERT INTO "study_runs" VALUES(4,32,10);
INSERT INTO "study_runs" VALUES(4,33,11);
INSERT INTO "study_runs" VALUES(4,34,12);
INSERT INTO "study_runs" VALUES(4,35,13);
INSERT INTO "study_runs" VALUES(4,36,14);
INSERT INTO "study_runs" VALUES(4,37,15);
INSERT INTO "study_runs" VALUES(4,38,16);
INSERT INTO "study_runs" VALUES(4,4,17);
INSERT INTO "study_runs" VALUES(4,39,18);
INSERT INTO "study_runs" VALUES(4,40,19);
INSERT INTO "study_runs" VALUES(5,41,0);
INSERT INTO "study_runs" VALUES(6,42,0);
INSERT INTO "study_runs" VALUES(6,43,1);
INSERT INTO "study_runs" VALUES(6,44,2);
INSERT INTO "study_runs" VALUES(6,45,3);
INSERT INTO "study_runs" VALUES(7,44,0);
INSERT INTO "study_runs" VALUES(7,46,1);
INSERT INTO "study_runs" VALUES(7,42,2);
INSERT INTO "study_runs" VALUES(7,47,3);
INSERT INTO "study_runs" VALUES(8,47,0);
INSERT INTO "study_runs" VALUES(8,46,1);
CREATE TABLE units (
	id INTEGER NOT NULL, 
	run_id INTEGER NOT NULL, 
	unit TEXT NOT NULL, 
	seconds DOUBLE NOT NULL, 
	counted_sparsity DOUBLE, 
	full_sparsity DOUBLE, 
	environment_id INTEGER, 
	finished DOUBLE NOT NULL, 
	CONSTRAINT pk_units PRIMARY KEY (id), 
	CONSTRAINT uq_units_run_id_unit UNIQUE (run_id, unit), 
	CONSTRAINT fk_units_run_id FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE, 
	CONSTRAINT fk_units_environment_id FOREIGN KEY(environment_id) REFERENCES environments (id)
);
INSERT INTO "units" VALUES(1,1,'deviation',1.5,0.49,0.4,1,1.7953757698050124645e+09);
INSERT INTO "units" VALUES(2,1,'choice',1.5,0.49,0.4,1,1.7953757698171379566e+09);
INSERT INTO "units" VALUES(5,3,'deviation',1.5,0.49,0.4,1,1.79537576985710382458e+09);
INSERT INTO "units" VALUES(6,3,'choice',1.5,0.49,0.4,1,1.79537576986509227749e+09);
INSERT INTO "units" VALUES(9,5,'deviation',1.5,0.49,0.4,1,1.79537576990134930612e+09);
INSERT INTO "units" VALUES(10,5,'choice',1.5,0.49,0.4,1,1.79537576991052293777e+09);
INSERT INTO "units" VALUES(11,6,'deviation',1.5,0.49,0.4,1,1.79537576992106485363e+09);
INSERT INTO "units" VALUES(12,6,'choice',1.5,0.49,0.4,1,1.79537576992903280255e+09);
INSERT INTO "units" VALUES(13,7,'deviation',1.5,0.49,0.4,1,1.79537576993693137172e+09);
INSERT INTO "units" VALUES(14,7,'choice',1.5,0.49,0.4,1,1.79537576994091057779e+09);
INSERT INTO "units" VALUES(15,8,'deviation',1.5,0.49,0.4,1,1.79537576994893932342e+09);
INSERT INTO "units" VALUES(16,8,'choice',1.5,0.49,0.4,1,1.795375769952906847e+09);
INSERT INTO "units" VALUES(17,9,'deviation',1.5,0.49,0.4,1,1.79537576996099472047e+09);
INSERT INTO "units" VALUES(18,9,'choice',1.5,0.49,0.4,1,1.79537576996491742131e+09);
INSERT INTO "units" VALUES(19,10,'deviation',1.5,0.49,0.4,1,1.79537576997299098968e+09);
INSERT INTO "units" VALUES(20,10,'choice',1.5,0.49,0.4,1,1.79537576997691440587e+09);
INSERT INTO "units" VALUES(23,12,'deviation',1.5,0.49,0.4,1,1.7953757700090248585e+09);
INSERT INTO "units" VALUES(24,12,'choice',1.5,0.49,0.4,1,1.79537577001299834249e+09);
INSERT INTO "units" VALUES(25,13,'deviation',1.5,0.49,0.4,1,1.7953757700251426697e+09);
INSERT INTO "units" VALUES(26,13,'choice',1.5,0.49,0.4,1,1.79537577003306293484e+09);
INSERT INTO "units" VALUES(27,11,'deviation',1.5,0.49,0.4,1,1.79537577005693531036e+09);
INSERT INTO "units" VALUES(28,11,'choice',1.5,0.49,0.4,1,1.79537577006866550443e+09);
INSERT INTO "units" VALUES(33,14,'deviation',1.5,0.49,0.4,1,1.79537577013703322412e+09);
INSERT INTO "units" VALUES(34,14,'choice',1.5,0.49,0.4,1,1.79537577014092063903e+09);
INSERT INTO "units" VALUES(35,15,'deviation',1.5,0.49,0.4,1,1.79537577014893579485e+09);
INSERT INTO "units" VALUES(36,15,'choice',1.5,0.49,0.4,1,1.79537577015288758275e+09);
INSERT INTO "units" VALUES(37,17,'deviation',1.5,0.49,0.4,1,1.79537577016097545622e+09);
INSERT INTO "units" VALUES(38,17,'choice',1.5,0.49,0.4,1,1.79537577016488337513e+09);
INSERT INTO "units" VALUES(39,2,'deviation',1.5,0.49,0.4,1,1.79537577017291045183e+09);
INSERT INTO "units" VALUES(40,2,'choice',1.5,0.49,0.4,1,1.79537577017688965794e+09);
INSERT INTO "units" VALUES(41,18,'deviation',1.5,0.49,0.4,1,1.79537577018489336966e+09);
INSERT INTO "units" VALUES(42,18,'choice',1.5,0.49,0.4,1,1.79537577019288349146e+09);
INSERT INTO "units" VALUES(43,19,'deviation',1.5,0.49,0.4,1,1.79537577020106983187e+09);
INSERT INTO "units" VALUES(44,19,'choice',1.5,0.49,0.4,1,1.79537577020917630196e+09);
INSERT INTO "units" VALUES(45,21,'deviation',1.5,0.49,0.4,1,1.79537577022092294685e+09);
INSERT INTO "units" VALUES(46,21,'choice',1.5,0.49,0.4,1,1.79537577022492599487e+09);
INSERT INTO "units" VALUES(47,22,'deviation',1.5,0.49,0.4,1,1.79537577028109073635e+09);
INSERT INTO "units" VALUES(48,22,'choice',1.5,0.49,0.4,1,1.79537577028906893726e+09);
INSERT INTO "units" VALUES(49,23,'deviation',1.5,0.49,0.4,1,1.79537577030097055428e+09);
INSERT INTO "units" VALUES(50,23,'choice',1.5,0.49,0.4,1,1.79537577030497741696e+09);
INSERT INTO "units" VALUES(51,24,'deviation',1.5,0.49,0.4,1,1.79537577032096457487e+09);
INSERT INTO "units" VALUES(52,24,'choice',1.5,0.49,0.4,1,1.79537577032491827005e+09);
INSERT INTO "units" VALUES(53,25,'deviation',1.5,0.49,0.4,1,1.79537577033690881733e+09);
INSERT INTO "units" VALUES(54,25,'choice',1.5,0.49,0.4,1,1.79537577034089899062e+09);
INSERT INTO "units" VALUES(55,26,'deviation',1.5,0.49,0.4,1,1.79537577035297203067e+09);
INSERT INTO "units" VALUES(56,26,'choice',1.5,0.49,0.4,1,1.79537577035693216324e+09);
INSERT INTO "units" VALUES(57,27,'deviation',1.5,0.49,0.4,1,1.79537577036497235294e+09);
INSERT INTO "units" VALUES(58,27,'choice',1.5,0.49,0.4,1,1.79537577036893415457e+09);
INSERT INTO "units" VALUES(59,28,'deviation',1.5,0.49,0.4,1,1.79537577037690210344e+09);
INSERT INTO "units" VALUES(60,28,'choice',1.5,0.49,0.4,1,1.79537577038099765772e+09);
INSERT INTO "units" VALUES(61,29,'deviation',1.5,0.49,0.4,1,1.79537577039294648172e+09);
INSERT INTO "units" VALUES(62,29,'choice',1.5,0.49,0.4,1,1.79537577039695739745e+09);
INSERT INTO "units" VALUES(63,30,'deviation',1.5,0.49,0.4,1,1.795375770409011364e+09);
INSERT INTO "units" VALUES(64,30,'choice',1.5,0.49,0.4,1,1.79537577041296267507e+09);
INSERT INTO "units" VALUES(65,31,'deviation',1.5,0.49,0.4,1,1.79537577041898822787e+09);
INSERT INTO "units" VALUES(66,31,'choice',1.5,0.49,0.4,1,1.79537577042503571512e+09);
INSERT INTO "units" VALUES(67,32,'deviation',1.5,0.49,0.4,1,1.79537577043699193e+09);
INSERT INTO "units" VALUES(68,32,'choice',1.5,0.49,0.4,1,1.79537577044100284573e+09);
INSERT INTO "units" VALUES(69,33,'deviation',1.5,0.49,0.4,1,1.79537577045297288896e+09);
INSERT INTO "units" VALUES(70,33,'choice',1.5,0.49,0.4,1,1.79537577045692563052e+09);
INSERT INTO "units" VALUES(71,34,'deviation',1.5,0.49,0.4,1,1.79537577046499729161e+09);
INSERT INTO "units" VALUES(72,34,'choice',1.5,0.49,0.4,1,1.7953757704691410065e+09);
INSERT INTO "units" VALUES(73,35,'deviation',1.5,0.49,0.4,1,1.7953757704809317589e+09);
INSERT INTO "units" VALUES(74,35,'choice',1.5,0.49,0.4,1,1.7953757704891109467e+09);
INSERT INTO "units" VALUES(75,36,'deviation',1.5,0.49,0.4,1,1.79537577050490117073e+09);
INSERT INTO "units" VALUES(76,36,'choice',1.5,0.49,0.4,1,1.79537577050887751581e+09);
INSERT INTO "units" VALUES(77,37,'deviation',1.5,0.49,0.4,1,1.79537577051915645592e+09);
INSERT INTO "units" VALUES(78,37,'choice',1.5,0.49,0.4,1,1.79537577052892208099e+09);
INSERT INTO "units" VALUES(79,38,'deviation',1.5,0.49,0.4,1,1795375770.53689);
INSERT INTO "units" VALUES(80,38,'choice',1.5,0.49,0.4,1,1.79537577054089736937e+09);
INSERT INTO "units" VALUES(81,4,'deviation',1.5,0.49,0.4,1,1.7953757705528893471e+09);
INSERT INTO "units" VALUES(82,4,'choice',1.5,0.49,0.4,1,1.79537577055687189099e+09);
INSERT INTO "units" VALUES(83,39,'deviation',1.5,0.49,0.4,1,1.79537577057698845856e+09);
INSERT INTO "units" VALUES(84,39,'choice',1.5,0.49,0.4,1,1.79537577058489727973e+09);
INSERT INTO "units" VALUES(85,40,'deviation',1.5,0.49,0.4,1,1.79537577059295129769e+09);
INSERT INTO "units" VALUES(86,40,'choice',1.5,0.49,0.4,1,1.79537577059688138961e+09);
INSERT INTO "units" VALUES(87,41,'deviation',1.5,0.49,0.4,1,1.79537577061698245999e+09);
INSERT INTO "units" VALUES(88,41,'choice',1.5,0.49,0.4,1,1.79537577062403178214e+09);
INSERT INTO "units" VALUES(89,42,'choice',1.5,0.49,0.4,1,1.79537577064889383314e+09);
INSERT INTO "units" VALUES(90,43,'deviation',1.5,0.49,0.4,1,1.79537577066089153285e+09);
INSERT INTO "units" VALUES(91,43,'choice',1.5,0.49,0.4,1,1.79537577066489624976e+09);
INSERT INTO "units" VALUES(92,44,'choice',1.5,0.49,0.4,1,1.7953757706739780903e+09);
INSERT INTO "units" VALUES(93,45,'choice',1.5,0.49,0.4,1,1.79537577068888473509e+09);
INSERT INTO "units" VALUES(94,47,'deviation',1.5,0.49,0.4,1,1.79537577071947383883e+09);
INSERT INTO "units" VALUES(95,47,'choice',1.5,0.49,0.4,1,1.79537577072890806202e+09);
CREATE TABLE wina_schema_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY);
INSERT INTO "wina_schema_version" VALUES('0005');
CREATE INDEX ix_models_opened ON models (opened);
CREATE INDEX ix_runs_status ON runs (status);
CREATE INDEX ix_runs_model_id ON runs (model_id);
CREATE INDEX ix_study_runs_run_id ON study_runs (run_id);
CREATE INDEX ix_study_labels_study_id ON study_labels (study_id);
CREATE INDEX ix_study_labels_run_id ON study_labels (run_id);
CREATE INDEX ix_layer_stats_unit_id ON layer_stats (unit_id);
CREATE INDEX ix_layer_stats_calibration_id ON layer_stats (calibration_id);
CREATE INDEX ix_layer_stats_rotation_id ON layer_stats (rotation_id);
COMMIT;
